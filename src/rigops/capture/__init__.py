"""The state of a host before a reinstall, and whether its disk may be wiped."""
