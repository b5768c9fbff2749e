"""Backups to a borg repository: encrypted, checked, and restored from as a drill."""

from __future__ import annotations

from typing import Final

NAME: Final = "borg"
