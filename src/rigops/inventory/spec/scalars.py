"""Keys, and parsers of single values, which return the typed value or raise RefusedError."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from rigops.dataclass import dataclass
from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.names import did_you_mean

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?[KMGT]i?B?|[0-9]+")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class Key(Generic[T_co]):
    """`parse` raises RefusedError. `also_written`: what people write for it.

    `stays_here`: its value is secret, or about this machine, so that no record on a host has it,
    other than these parts of it.
    """

    name: str
    accepted: str
    parse: Callable[[object], T_co]
    also_written: tuple[str, ...] = ()
    stays_here: bool = False
    recorded_parts: tuple[str, ...] = ()


def word_key(name: str, *accepted: str, also_written: tuple[str, ...] = ()) -> Key[str]:
    """A key that takes one of these words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in accepted:
            return value
        fix = did_you_mean(str(value).lower(), accepted)
        refuse("not one of the accepted words", value, fix=fix)

    return Key(name, ", ".join(f'"{word}"' for word in accepted), parse, also_written)


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"yes": True, "true": True, "on": True, "1": True, "no": False, "off": False}
    meant = words.get(str(value).lower())
    refuse("not True or False", value, fix=f"write {meant}" if meant is not None else "")


def whole_number(least: int, most: int, unit: str = "") -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            refuse("not a whole number", value)
        if not least <= value <= most:
            refuse(f"{value}{unit} is outside {least} to {most}{unit}", value)
        return value

    return parse


def number(least: float, most: float, unit: str = "") -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse("not a number", value)
        if not least <= value <= most:
            refuse(f"{value:g}{unit} is outside {least:g} to {most:g}{unit}", value)
        return float(value)

    return parse


def text(value: object) -> str:
    if not isinstance(value, str):
        refuse("not a string", value, fix="put it in quotes")
    if not value.strip():
        refuse("empty", value)
    if _CONTROL.search(value):
        refuse("contains a line break or another control character", value)
    return value


def list_of(parse: Callable[[object], T], *, noun: str) -> Callable[[object], tuple[T, ...]]:
    def parse_list(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            refuse(f"a single string, not a list of {noun}", value, fix=f"write [{value!r}]")
        if not isinstance(value, (list, tuple)):
            refuse(f"not a list of {noun}", value)
        found = Collector()
        parsed_items: list[T] = []
        for position, item in enumerate(value):
            before = len(found.faults)
            parsed = found.check(parse, item, f"[{position}]", item)
            if len(found.faults) == before:
                if parsed in parsed_items:
                    found.refuse("duplicate entry", item, f"[{position}]")
                parsed_items.append(parsed)
        return found.finish(tuple(parsed_items))

    return parse_list


def mapping(value: object, *, noun: str, example: str) -> dict[str, object]:
    if not isinstance(value, dict):
        refuse(f"not a dict of {noun}", value, fix=f"write {example}")
    for key in value:
        if not isinstance(key, str):
            refuse(f"name {key!r} is not a string", value, fix="put it in quotes")
    return dict(value)


def check_names(found: Collector, data: Mapping[str, object], accepted: Iterable[str]) -> None:
    known = list(accepted)
    for key in data:
        if key not in known:
            fix = f"{did_you_mean(key, known)} Accepted: {', '.join(known)}".lstrip()
            found.refuse("unknown name", data[key], key, fix=fix, secret=True)


def size(value: object) -> str:
    """A size as systemd and mount write it."""
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return value
    refuse("not a size", value, fix='write it as "64G" or "512M"')


def size_or_percent(value: object) -> str:
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        percent(value)
        return value.replace(" ", "")
    return size(value)


def percent(value: str) -> float:
    matched = _PERCENT.fullmatch(value)
    if not matched:
        refuse("not a percentage", value, fix='write it as "80%"')
    share = float(matched[1])
    if not 0 < share <= 100:  # noqa: PLR2004 - percent
        refuse(f"{share:g} % is outside 0 to 100 %", value)
    return share
