"""Faults of declared values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NoReturn, TypeVar

from rigops.dataclass import dataclass

T = TypeVar("T")

_LONGEST_SHOWN = 80
_MOST_DIGITS = 18
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True)
class Fault:
    message: str
    fix: str = ""
    path: tuple[str, ...] = ()
    value: object = None
    secret: bool = False


class RefusedError(ValueError):
    """All faults of one value."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.message for fault in faults))


def refuse(message: str, value: object, *, fix: str = "", secret: bool = False) -> NoReturn:
    raise RefusedError(Fault(message, fix, value=value, secret=secret))


def shown(value: object) -> str:
    """A declared value, short, on one line and without credentials of a URL."""
    try:
        text = _USERINFO.sub("(hidden)", repr(value))
    except Exception:  # noqa: BLE001 - of the user's own class, or an int of 4300 digits
        text = f"a value of the type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def has_long_number(value: object) -> bool:
    """Whether there is an int in it that no float and no text of Python may take."""
    left, seen = [value], set[int]()
    while left:
        one = left.pop()
        if isinstance(one, int) and abs(one) >= 10**_MOST_DIGITS:
            return True
        if isinstance(one, (list, tuple, set, dict)) and id(one) not in seen:
            seen.add(id(one))
            left += [*one, *one.values()] if isinstance(one, dict) else [*one]
    return False


@dataclass
class Collector:
    """Collects all faults of a value made of parts."""

    faults: list[Fault] = field(default_factory=list)

    def take(
        self, parse: Callable[[object], T], data: Mapping[str, object], key: str, default: T
    ) -> T:
        if data.get(key) is None:
            return default
        return self.check(parse, data[key], key, default)

    def check(self, parse: Callable[[object], T], value: object, where: str, default: T) -> T:
        try:
            return parse(value)
        except RefusedError as refused:
            self.faults += [
                Fault(f.message, f.fix, (where, *f.path), f.value, f.secret) for f in refused.faults
            ]
            return default

    def refuse(
        self, message: str, value: object, where: str, *, fix: str = "", secret: bool = False
    ) -> None:
        self.faults.append(Fault(message, fix, (where,), value, secret))

    def finish(self, value: T) -> T:
        if self.faults:
            raise RefusedError(*self.faults)
        return value
