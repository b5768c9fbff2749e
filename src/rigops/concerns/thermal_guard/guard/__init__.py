"""What the program on the host is made of: Python 3.8 and its standard library only."""
