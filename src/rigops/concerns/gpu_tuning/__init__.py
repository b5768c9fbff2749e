"""gpu_persistence, gpu_power_limit, gpu_clocks: settings of the cards that hold across reboots."""

from __future__ import annotations

from typing import Final

NAME: Final = "gpu_tuning"
