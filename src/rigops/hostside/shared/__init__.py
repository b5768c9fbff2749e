"""What several programs that run on hosts share. Python 3.8 and the standard library, or sh."""
