"""Kernel log lines, whatever wrote them down, and the events that matter to a rig."""
