"""The shape of a document, as values: a text of some pattern, one of some words, a mapping, a list.

Each shape says what is wrong at which place; an unknown key is named with the one that was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rigops.dataclass import dataclass
from rigops.inventory.spec.names import did_you_mean


class Shape(Protocol):
    def faults(self, value: object, place: str) -> Iterator[str]: ...


@dataclass(frozen=True)
class Text:
    pattern: str = r"[ -~]{1,2000}"

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            yield f"{place}: {value!r} is not a text like {self.pattern}"


@dataclass(frozen=True)
class Program:
    """Of a shell, in several lines."""

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            if isinstance(value, str) and value.replace("\n", "").isprintable() and value.strip():
                return
            yield f"{place}: no commands"


@dataclass(frozen=True)
class OneOf:
    """True is not 1: types are compared too."""

    values: tuple[object, ...]

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not any(type(value) is type(one) and value == one for one in self.values):
            accepted = " or ".join(map(repr, self.values))
            yield f"{place}: {value!r} is not {accepted}"


@dataclass(frozen=True)
class Whole:
    least: int
    most: int

    def faults(self, value: object, place: str) -> Iterator[str]:
        if type(value) is not int or not self.least <= value <= self.most:
            yield f"{place}: {value!r} is no whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class ListOf:
    item: Shape
    least: int = 1

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, list) or len(value) < self.least:
            yield f"{place}: no list of at least {self.least}"
            return
        for number, one in enumerate(value):
            yield from self.item.faults(one, f"{place}[{number}]")


@dataclass(frozen=True)
class Map:
    """Keys by name, required unless they are named in `optional`."""

    keys: Mapping[str, Shape]
    optional: Sequence[str] = ()

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place}: no mapping"
            return
        for key in value.keys() - self.keys.keys():
            hint = did_you_mean(key, self.keys)
            yield f"{place}.{key}: unknown key" + (f"; {hint}" if hint else "")
        for key, shape in self.keys.items():
            if key in value:
                yield from shape.faults(value[key], f"{place}.{key}")
            elif key not in self.optional:
                yield f"{place}.{key}: missing"


@dataclass(frozen=True)
class MapOf:
    """Keys of a pattern, values of one shape."""

    key: str
    value: Shape

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, dict) or not value:
            yield f"{place}: no mapping with an entry"
            return
        for key, one in value.items():
            if not re.fullmatch(self.key, key):
                yield f"{place}: key {key!r} is not like {self.key}"
            yield from self.value.faults(one, f"{place}.{key}")


@dataclass(frozen=True)
class Kinds:
    """Mappings whose `by` says which of these shapes they have."""

    by: str
    shapes: Mapping[str, Map]

    def faults(self, value: object, place: str) -> Iterator[str]:
        kind = value.get(self.by) if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in self.shapes:
            yield f"{place}.{self.by}: {kind!r} is not {' or '.join(map(repr, self.shapes))}"
            return
        yield from self.shapes[kind].faults(value, place)
