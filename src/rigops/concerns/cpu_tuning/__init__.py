"""cpu_max_freq, cpu_governor: how fast the processors may run."""

from __future__ import annotations

from typing import Final

NAME: Final = "cpu_tuning"
