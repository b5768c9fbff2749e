"""Text copied out of terminals, forums and log files: the outputs in it."""
