"""What several concerns and doctor ask before a change: who is at work, who else sets the same."""
