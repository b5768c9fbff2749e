"""The same proven host again, after a reinstall. Each stage is judged by the host's own state."""
