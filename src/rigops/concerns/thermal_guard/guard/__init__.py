"""The parts of the program on the host: Python 3.8 and its standard library only."""
