"""What a host says about itself: one sh script, many sections, each with its own pure parser."""
