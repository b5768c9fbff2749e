"""Common checks of concerns and doctor before a change: jobs, passthrough, firmware, clock."""
