"""One module per group of checks."""
