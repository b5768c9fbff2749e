"""apt: what a host has and could have, and changes to it."""
