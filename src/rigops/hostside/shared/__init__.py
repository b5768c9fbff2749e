"""Common parts of programs that run on hosts. Python 3.8 and the standard library, or sh."""
