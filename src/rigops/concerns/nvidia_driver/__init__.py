"""driver and its keys: the pinned NVIDIA driver."""

from __future__ import annotations

from typing import Final

NAME: Final = "nvidia_driver"
