"""thermal_limit and what goes with it: a service that acts on heat, and on lost sensors."""

from __future__ import annotations

from typing import Final

NAME: Final = "thermal_guard"
