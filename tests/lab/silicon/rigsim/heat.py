"""How warm a card gets, by its power or by a fan that has failed; and sensors that fail."""

import time
from typing import NamedTuple

from . import paths
from .rig import Gpu

_AIR = 30
_A_SECOND = 2.0  # degrees, without a fan
_HOTTEST = 105
_UNREADABLE = {"na": "N/A", "error": "Unknown Error"}


class Heat(NamedTuple):
    """Of one card. A number: the degrees at its default power limit, and fewer at a lower one."""

    gpu: Gpu
    words: tuple[str, ...]

    @property
    def is_busy(self) -> bool:
        return any(word == "fan" or word.isdigit() for word in self.words)

    @property
    def unreadable(self) -> str:
        return next((_UNREADABLE[word] for word in self.words if word in _UNREADABLE), "")

    @property
    def memory(self) -> int | None:
        found = [word.removeprefix("memory-") for word in self.words if word.startswith("memory-")]
        return int(found[0]) if found else None

    def celsius(self, limit: float) -> int | None:
        """None: as always."""
        if "fan" in self.words:
            since = time.time() - paths.RIG.stat().st_mtime
            return min(_HOTTEST, self.gpu.model.temperature.idle + 20 + int(since * _A_SECOND))
        degrees = [int(word) for word in self.words if word.isdigit()]
        if not degrees:
            return None
        share = min(1.0, limit / self.gpu.model.watts.default)
        return round(_AIR + (degrees[0] - _AIR) * share)
