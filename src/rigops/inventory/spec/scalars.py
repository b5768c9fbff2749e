"""Parsers of single values. Each returns the typed value or raises RefusedError."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SIZE = re.compile(r"\d+(\.\d+)?[KMGT]i?B?|\d+")
_WHOLE = 100
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"yes": True, "true": True, "on": True, "1": True, "no": False, "off": False}
    meant = words.get(str(value).lower())
    refuse("this is not True or False", value, fix=f"write {meant}" if meant is not None else "")


def whole_number(least: int, most: int, unit: str = "") -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            refuse("this is not a whole number", value)
        if not least <= value <= most:
            refuse(f"{value}{unit} is outside {least} to {most}{unit}", value)
        return value

    return parse


def number(least: float, most: float, unit: str = "") -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse("this is not a number", value)
        if not least <= value <= most:
            refuse(f"{value:g}{unit} is outside {least:g} to {most:g}{unit}", value)
        return float(value)

    return parse


def text(value: object) -> str:
    if not isinstance(value, str):
        refuse("this is not text", value, fix="put it in quotes")
    if not value.strip():
        refuse("this is empty", value)
    if _CONTROL.search(value):
        refuse("this has a line break or another control character in it", value)
    return value


def choice(*accepted: T) -> Callable[[object], T]:
    """One of some words, as written."""

    def parse(value: object) -> T:
        for word in accepted:
            if value == word and type(value) is type(word):
                return word
        words = [str(word) for word in accepted]
        refuse("this is not one of the accepted words", value, fix=_meant(value, words))

    return parse


def list_of(parse: Callable[[object], T], *, noun: str) -> Callable[[object], tuple[T, ...]]:
    def parse_list(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            refuse(f"this is one text, not a list of {noun}", value, fix=f"write [{value!r}]")
        if not isinstance(value, (list, tuple)):
            refuse(f"this is not a list of {noun}", value)
        found = Collector()
        kept: list[T] = []
        for position, item in enumerate(value):
            before = len(found.faults)
            parsed = found.check(parse, item, f"[{position}]", item)
            if len(found.faults) == before:
                if parsed in kept:
                    found.refuse("this stands in the list twice", item, f"[{position}]")
                kept.append(parsed)
        return found.finish(tuple(kept))

    return parse_list


def mapping(value: object, *, noun: str, example: str) -> dict[str, object]:
    if not isinstance(value, dict):
        refuse(f"this is not a dict of {noun}", value, fix=f"write {example}")
    for key in value:
        if not isinstance(key, str):
            refuse(f"the name {key!r} is not text", value, fix="put it in quotes")
    return dict(value)


def check_names(found: Collector, data: Mapping[str, object], accepted: Iterable[str]) -> None:
    known = list(accepted)
    for key in data:
        if key not in known:
            hint = did_you_mean(key, known)
            fix = f"{hint} It takes {', '.join(known)}." if hint else f"it takes {', '.join(known)}"
            found.refuse("there is no such name here", data[key], key, fix=fix, secret=True)


def size(value: object) -> str:
    """A size as systemd and mount write it."""
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return value
    refuse("this is not a size", value, fix='write it as "64G" or "512M"')


def size_or_percent(value: object) -> str:
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        percent(value)
        return value.replace(" ", "")
    return size(value)


def percent(value: str) -> float:
    matched = _PERCENT.fullmatch(value)
    if not matched:
        refuse("this is not a percentage", value, fix='write it as "80%"')
    share = float(matched[1])
    if not 0 < share <= _WHOLE:
        refuse(f"{share:g} % is outside 0 to {_WHOLE} %", value)
    return share


def _meant(value: object, words: list[str]) -> str:
    return did_you_mean(str(value).lower(), words)
