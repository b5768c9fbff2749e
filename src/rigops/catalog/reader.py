"""From a parsed TOML table to a typed entry; problems are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from rigops.errors import Problem

if TYPE_CHECKING:
    Kind = Callable[..., object]  # a dataclass, or a plain type

E = TypeVar("E")

Values = dict[str, object]

_MOST_NUMBER: Final = 2**53
_LONGEST_SHOWN: Final = 100
_PLAIN: dict[object, str] = {
    str: "a text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class _Unreadable:
    """A value that was complained about."""


_UNREADABLE = _Unreadable()


class Place(NamedTuple):
    """The name of an entry, and a field inside it."""

    entry: str
    field: str = ""

    def inside(self, name: str) -> Place:
        return Place(self.entry, f"{self.field}.{name}" if self.field else name)

    def item(self, index: int) -> Place:
        return Place(self.entry, f"{self.field}[{index}]")


class Reader:
    """Reads the entries of one file and collects what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def complain(
        self, place: Place, message: str, value: object = None, accepted: str = ""
    ) -> None:
        self.problems.append(
            Problem(
                message=message,
                accepted=accepted,
                file=self.file,
                key=place.entry,
                value=None if value is None else shown(value),
            )
        )

    def values(self, kind: Kind, raw: Mapping[str, object], place: Place) -> Values:
        """The fields that are given and readable; unknown ones are complained about."""
        hints = _hints(kind)
        for name in sorted(raw.keys() - hints.keys()):
            self.complain(
                place,
                f"{place.inside(name).field} is not a field of this table{_meant(name, hints)}",
                name,
                ", ".join(hints),
            )
        read = {
            name: self._value(hint, raw[name], place.inside(name))
            for name, hint in hints.items()
            if name in raw
        }
        return {name: value for name, value in read.items() if value is not _UNREADABLE}

    def missing(self, kind: Kind, given: Iterable[str], place: Place) -> bool:
        """Complain about every required field that is not given."""
        absent = sorted(required(kind) - set(given))
        for name in absent:
            self.complain(
                place,
                f"{place.inside(name).field} is missing",
                accepted=_expected(_hints(kind)[name]),
            )
        return bool(absent)

    def _value(self, hint: object, raw: object, place: Place) -> object:
        if isinstance(hint, type) and hint in _PLAIN:
            return self._plain(hint, raw, place)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            value, form = self._value(arguments[0], raw, place), arguments[1]
            if value is _UNREADABLE or form.fits(value):
                return value
            self.complain(place, f"{place.field} {form.fault}", raw, form.accepted)
            return _UNREADABLE
        if origin is Literal:
            return self._choice(arguments, raw, place)
        if origin is tuple:
            return self._list(arguments[0], raw, place)
        if isinstance(hint, type) and is_dataclass(hint):
            return self._nested(hint, raw, place)
        raise TypeError(f"the catalog cannot read a field of type {hint}")

    def _plain(self, kind: Kind, raw: object, place: Place) -> object:
        number = raw if isinstance(raw, (int, float)) and not isinstance(raw, bool) else 0
        if not -_MOST_NUMBER < number < _MOST_NUMBER:
            self.complain(place, f"{place.field} is no number that fits", raw, _PLAIN[kind])
            return _UNREADABLE
        if kind is float and type(raw) is int:
            return float(raw)
        if type(raw) is kind:
            return raw
        self.complain(place, f"{place.field} has the wrong type", raw, _PLAIN[kind])
        return _UNREADABLE

    def _choice(self, accepted: tuple[str, ...], raw: object, place: Place) -> object:
        if raw in accepted:
            return raw
        hint = _meant(raw, accepted) if isinstance(raw, str) else ""
        self.complain(place, f"{place.field} has an unknown value{hint}", raw, ", ".join(accepted))
        return _UNREADABLE

    def _list(self, item: object, raw: object, place: Place) -> object:
        if not isinstance(raw, list):
            self.complain(place, f"{place.field} has the wrong type", raw, "a list in brackets")
            return _UNREADABLE
        items = [self._value(item, one, place.item(at)) for at, one in enumerate(raw)]
        return _UNREADABLE if any(one is _UNREADABLE for one in items) else tuple(items)

    def _nested(self, kind: Kind, raw: object, place: Place) -> object:
        if not isinstance(raw, dict):
            accepted = f"a table with {', '.join(_hints(kind))}"
            self.complain(place, f"{place.field} has the wrong type", raw, accepted)
            return _UNREADABLE
        before = len(self.problems)
        values = self.values(kind, raw, place)
        self.missing(kind, raw, place)
        return _UNREADABLE if len(self.problems) > before else build(kind, values)


def shown(value: object) -> str:
    try:
        text = str(value)
    except (ValueError, RecursionError):  # too many digits, or tables in tables
        return "a value of many digits or levels"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def build(kind: Callable[..., E], values: Values) -> E:
    return kind(**values)


@cache
def required(kind: Kind) -> frozenset[str]:
    described = fields(kind) if is_dataclass(kind) else ()
    return frozenset(one.name for one in described if one.default is MISSING)


@cache
def _hints(kind: Kind) -> dict[str, object]:
    return get_type_hints(kind, include_extras=True)


def _expected(hint: object) -> str:
    if get_origin(hint) is Annotated:
        return _expected(get_args(hint)[0])
    if isinstance(hint, type) and hint in _PLAIN:
        return _PLAIN[hint]
    return ", ".join(get_args(hint)) if get_origin(hint) is Literal else "a list in brackets"


def _meant(name: str, accepted: Iterable[str]) -> str:
    close = get_close_matches(name[:_LONGEST_SHOWN], list(accepted), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
