"""What several concerns and doctor check before a change: jobs, passthrough, firmware, clock."""
