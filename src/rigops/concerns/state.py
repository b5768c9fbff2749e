"""Whether a host is as declared: one answer for plan, doctor and the self-check.

Each concern judges by a pure function in its `state.py`, which hosts run too: Python 3.8, the
standard library only.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Status = Literal["as declared", "differs", "held", "unknown", "left over", "refused", "not here"]

AS_DECLARED: Final = "as declared"
DIFFERS: Final = "differs"  # plan changes it
HELD: Final = "held"  # the machine itself keeps it otherwise, so there is nothing to change
UNKNOWN: Final = "unknown"  # never healthy
LEFT_OVER: Final = "left over"  # not declared, and rigops has set it: plan undoes it
REFUSED: Final = "refused"  # the machine takes no such value: plan is blocked
NOT_HERE: Final = "not here"  # the machine has nothing that could be set


class State(NamedTuple):
    """Of one setting. `check`: of doctor and the self-check. Values have their units.

    `why`: who holds it, why it is not known, or the whole refusal. `evidence`: lines of the host.
    """

    check: str
    subject: str
    name: str
    wanted: str
    now: str
    status: Status
    why: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def is_to_change(self) -> bool:
        return self.status in {DIFFERS, LEFT_OVER}

    @property
    def text(self) -> str:
        verb = "are" if self.name.endswith("s") else "is"
        if self.status == DIFFERS:
            return f"{self.name} {verb} {self.now}, declared {self.wanted}"
        if self.status == LEFT_OVER:
            return f"{self.name} {verb} {self.now} by rigops, and no longer declared"
        if self.status == AS_DECLARED:
            return f"{self.name} {verb} {self.wanted}, as declared"
        return self.why if self.status == REFUSED else f"{self.name}: {self.why}"
