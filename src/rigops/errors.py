"""What can go wrong, said so that a person can mend it.

A Problem is one thing to mend. RigopsError carries one or more of them to the command line,
the only place that prints them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True)
class Problem:
    message: str
    accepted: str = ""
    cure: str = ""
    file: str | None = None
    line: int | None = None
    host: str | None = None
    key: str | None = None
    within: str = ""  # where inside the key's value, such as "[1]['watts']"
    value: str | None = None

    def as_json(self) -> dict[str, str | int | None]:
        return asdict(self)


class RigopsError(Exception):
    """Something a user can act on. Anything else that escapes is a bug of ours."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


class UsageError(RigopsError):
    """The command or the inventory is wrong, and nothing was touched."""
