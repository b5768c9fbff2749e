"""Errors that a user can fix; only the command line prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Final, ParamSpec, TypeVar

from rigops.dataclass import dataclass

P = ParamSpec("P")
E = TypeVar("E", bound="RigopsError")

REPORT_IT: Final = "this is a bug in rigops; report it with the output of -v"


@dataclass(frozen=True, kw_only=True)
class Problem:
    message: str
    accepted: str = ""
    fix: str = ""
    file: str | None = None
    line: int | None = None
    host: str | None = None
    key: str | None = None
    within: str = ""  # where inside the key's value, such as "[1]['watts']"
    value: str | None = None

    def as_json(self) -> dict[str, str | int | None]:
        return _document(self)


class RigopsError(Exception):
    """An error that a user can fix. Any other exception is a bug in rigops."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))

    @property
    def fix(self) -> str:
        return " ".join(problem.fix for problem in self.problems if problem.fix)


class UsageError(RigopsError):
    """The command or the inventory is wrong; no host was changed."""


def _of_one(problem: Callable[P, Problem], error: Callable[[Problem], E]) -> Callable[P, E]:
    return lambda *args, **fields: error(problem(*args, **fields))


rigops_error = _of_one(Problem, RigopsError)
usage_error = _of_one(Problem, UsageError)


@dataclass(frozen=True)
class HostError:
    """Why a host could not be reached or probed; a part of JSON documents."""

    kind: str
    message: str
    fix: str = ""

    def as_json(self) -> dict[str, str | int | None]:
        return _document(self)


def _document(error: Problem | HostError) -> dict[str, str | int | None]:
    """In JSON documents the fix of an error is called `cure`, since version 0.1."""
    return {("cure" if key == "fix" else key): value for key, value in asdict(error).items()}
