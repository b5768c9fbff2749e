"""Who hears of what goes wrong on a host without a person: notifications, self-check, metrics."""

from __future__ import annotations

from typing import Final

NAME: Final = "monitoring"
AUTO: Final = "auto"  # of `metrics`: where node_exporter looks
