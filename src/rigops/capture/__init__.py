"""What a host is before a reinstall, and whether its disk may be wiped."""
