"""What people copy out of terminals, forums and log files: which outputs are in it."""
