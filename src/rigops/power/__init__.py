"""Power of a rig: limits, supplies, circuits."""
