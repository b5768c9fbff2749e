"""What the program on hosts is made of; Python 3.8, standard library only."""
