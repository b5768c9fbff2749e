"""What became of each host, for people and for rigops.apply/1."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.operations.change import Change
    from rigops.preflight.document import HostFound

Outcome = Literal[
    "converged",
    "changed",
    "reboot_owed",
    "refused",
    "failed",
    "unreachable",
    "interrupted",
    "not_run",
]

_EXIT_CODES: dict[Outcome, int] = {
    "converged": 0,
    "changed": 0,
    "reboot_owed": 0,
    "refused": 1,
    "failed": 1,
    "unreachable": 3,
    "interrupted": 130,
    "not_run": 1,
}
_GRAVEST_FIRST = (130, 1, 3, 4, 0)


@dataclass(frozen=True)
class Blocked:
    """Declared, and nothing in this run can act on it."""

    concern: str
    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Stage:
    stage: str
    seconds: float


@dataclass(frozen=True)
class Error:
    kind: str
    message: str
    cure: str = ""


@dataclass
class HostResult:
    host: str
    outcome: Outcome = "not_run"
    changes: tuple[Change, ...] = ()
    reboot_reasons: tuple[str, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    stages: list[Stage] = field(default_factory=list)
    preflight: HostFound | None = None
    error: Error | None = None

    @property
    def pending(self) -> bool:
        return bool(self.changes or self.reboot_reasons)

    @property
    def exit_code(self) -> int:
        code = _EXIT_CODES[self.outcome]
        if self.preflight is not None and self.preflight.status == "fail":
            return 1
        if code == 0 and self.preflight is not None and self.preflight.status == "unknown":
            return 3
        return 1 if code == 0 and self.blocked else code

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "host": self.host,
            "outcome": self.outcome,
            "changes": [asdict(change) for change in self.changes],
            "reboot": bool(self.reboot_reasons),
            "reboot_reasons": list(self.reboot_reasons),
            "blocked": [asdict(one) for one in self.blocked],
            "stages": [
                {"stage": one.stage, "seconds": round(one.seconds, 3)} for one in self.stages
            ],
            "preflight": self.preflight.as_json() if self.preflight else None,
        }
        if self.error is not None:
            document["error"] = asdict(self.error)
        return document


def exit_code(results: Iterable[HostResult]) -> int:
    codes = {result.exit_code for result in results}
    return next((code for code in _GRAVEST_FIRST if code in codes), 0)
