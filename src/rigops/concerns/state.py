"""Whether a host is as declared: one answer for plan, doctor and the self-check.

Each concern judges by a pure function in its `state.py`, which hosts run too: Python 3.8, the
standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal[
    "as declared",
    "differs",
    "held",
    "in doubt",
    "failing",
    "unknown",
    "left over",
    "refused",
    "not here",
]

AS_DECLARED: Final = "as declared"
DIFFERS: Final = "differs"  # plan changes it
HELD: Final = "held"  # the machine itself keeps it otherwise, so there is nothing to change
IN_DOUBT: Final = "in doubt"  # a person should look, since apply changes nothing about it
FAILING: Final = "failing"  # the same, at once
UNKNOWN: Final = "unknown"  # never healthy
LEFT_OVER: Final = "left over"  # not declared, and rigops has set it: plan undoes it
REFUSED: Final = "refused"  # the machine takes no such value: plan is blocked
NOT_HERE: Final = "not here"  # the machine has nothing that could be set

SELF_CHECK: Final[Mapping[Status, Literal["ok", "warn", "fail", "unknown"]]] = {
    AS_DECLARED: "ok",
    DIFFERS: "warn",
    HELD: "ok",
    IN_DOUBT: "warn",
    FAILING: "fail",
    UNKNOWN: "unknown",
    LEFT_OVER: "warn",
    REFUSED: "warn",
    NOT_HERE: "ok",
}


class State(NamedTuple):
    """Of one setting. `check`: of doctor and the self-check. Values have their units.

    `why`: its holder, why it is not known, or the whole refusal; the whole sentence where the
    setting has no name. `evidence`: lines of the host.
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
        if not self.name or self.status == REFUSED:
            return self.why
        verb = "are" if self.name.endswith("s") else "is"
        if self.status == DIFFERS:
            return f"{self.name} {verb} {self.now}, declared {self.wanted}"
        if self.status == LEFT_OVER:
            return f"{self.name} {verb} {self.now} by rigops, and no longer declared"
        if self.status == AS_DECLARED:
            return f"{self.name} {verb} {self.wanted}, as declared"
        return f"{self.name}: {self.why}"
