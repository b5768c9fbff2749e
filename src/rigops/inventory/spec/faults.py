"""What is wrong with a declared value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_LONGEST_SHOWN = 80
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
    text = _USERINFO.sub("(hidden)", repr(value))
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


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
