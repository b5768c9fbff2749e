"""The parts of a host's self-check. Python 3.8 and the standard library only."""
