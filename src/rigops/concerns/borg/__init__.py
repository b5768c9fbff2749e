"""Backups to a borg repository: encrypted, checked, and restored from as a drill."""
