"""The result of a reprovision: rigops.reprovision/1."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Final, Literal

from rigops.converge.result import HostResult
from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.reprovision.compare import Compared, overall
from rigops.reprovision.state import StageTime

SCHEMA: Final = "rigops.reprovision/1"

Ending = Literal["compared", "failed", "unknown", "declined", "interrupted"]


class DeclinedError(Exception):
    """A person said no."""


@dataclass
class ReprovisionResult:
    """`stages`: of this run. `total_s`: of all runs since the capture. `story`: what was done.

    `hints`: lines of the inventory to change.
    """

    host: str
    captured_as: str
    capture: str  # its folder
    captured_at: str
    ending: Ending = "failed"
    stages: list[StageTime] = field(default_factory=list)
    total_s: float = 0
    story: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    apply: HostResult | None = None
    compared: tuple[Compared, ...] = ()
    error: HostError | None = None

    @property
    def status(self) -> str:
        """same, better or worse where it was compared."""
        return overall(self.compared) if self.ending == "compared" else self.ending

    @property
    def exit_code(self) -> int:
        codes = {"same": 0, "better": 0, "unknown": 3, "declined": 130, "interrupted": 130}
        return codes.get(self.status, 1)

    def as_json(self) -> dict[str, object]:
        one = {
            "host": self.host,
            "as": self.captured_as,
            "status": self.status,
            "capture": self.capture,
            "captured_at": self.captured_at,
            "stages": [asdict(stage) for stage in self.stages],
            "total_seconds": round(self.total_s, 3),
            "story": list(self.story),
            "hints": list(self.hints),
            "apply": self.apply.as_json() if self.apply else None,
            "compared": [asdict(line) for line in self.compared],
            "error": self.error.as_json() if self.error else None,
        }
        return {"schema": SCHEMA, "hosts": [one]}
