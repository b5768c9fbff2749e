"""Alerts of a host: notifications, self-check, metrics."""

from __future__ import annotations

from typing import Final

NAME: Final = "monitoring"
AUTO: Final = "auto"  # of `metrics`: where node_exporter looks
