"""The parts of the preflight program."""
