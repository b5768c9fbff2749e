"""Whether a host is as declared: one answer for plan, doctor and the self-check.

Each concern judges by a pure function in its `state.py`, which hosts run too: Python 3.8, the
standard library only.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Status = Literal["as declared", "differs", "held", "unknown", "left over"]

AS_DECLARED: Final = "as declared"
DIFFERS: Final = "differs"  # plan changes it
HELD: Final = "held"  # the machine itself keeps it otherwise, so there is nothing to change
UNKNOWN: Final = "unknown"  # never healthy
LEFT_OVER: Final = "left over"  # not declared, and rigops has set it: plan undoes it


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
