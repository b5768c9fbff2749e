"""What the self-check of a host is made of. Python 3.8 and the standard library only."""
