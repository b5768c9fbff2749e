"""Bundles: saved for others to look at, read back, and redacted."""
