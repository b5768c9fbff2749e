"""Whether a host is as declared: one answer for plan, doctor and the self-check.

Each concern judges by a pure function in its `state.py`, which hosts run too: Python 3.8, the
standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["as declared", "differs", "held", "in doubt", "failing", "unknown", "left over"]

AS_DECLARED: Final = "as declared"
DIFFERS: Final = "differs"  # plan changes it
HELD: Final = "held"  # the machine itself keeps it otherwise, so there is nothing to change
IN_DOUBT: Final = "in doubt"  # a person should look, since apply changes nothing about it
FAILING: Final = "failing"  # the same, at once
UNKNOWN: Final = "unknown"  # never healthy
LEFT_OVER: Final = "left over"  # not declared, and rigops has set it: plan undoes it

SELF_CHECK: Final[Mapping[Status, Literal["ok", "warn", "fail", "unknown"]]] = {
    AS_DECLARED: "ok",
    DIFFERS: "warn",
    HELD: "ok",
    IN_DOUBT: "warn",
    FAILING: "fail",
    UNKNOWN: "unknown",
    LEFT_OVER: "warn",
}


class State(NamedTuple):
    """`key`: as the concern names the setting. `why`: who holds it, or why it is not known."""

    key: str
    subject: str
    wanted: str
    now: str
    status: Status
    why: str = ""

    @property
    def is_to_change(self) -> bool:
        return self.status in {DIFFERS, LEFT_OVER}
