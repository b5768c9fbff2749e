"""How a declared value is refused: what was seen, what is accepted, what to write instead."""

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

    def shown_value(self) -> str:
        return "(hidden)" if self.secret else shown(self.value)


class RefusedError(ValueError):
    """One value, and everything that is wrong with it."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.message for fault in faults))


def refuse(message: str, value: object, *, fix: str = "", secret: bool = False) -> NoReturn:
    raise RefusedError(Fault(message, fix, value=value, secret=secret))


def shown(value: object) -> str:
    """A value as a person wrote it, short, on one line and without the login inside a URL."""
    text = _USERINFO.sub("(hidden)", repr(value))
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


@dataclass
class Collector:
    """Gathers the faults of a value made of parts, so that all of them are shown at once."""

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
