"""The result of both forms of the output: values at paths, card by card, and as Python values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TypeVar

from rigops.dataclass import dataclass
from rigops.numbers import whole

Value = TypeVar("Value")

_MOST_CARDS = 256  # no machine has as many; what follows them is no card
DEEPEST = 12

_ABSENT = frozenset(
    ("", "-", "n/a", "none", "not found", "no data", "unknown", "function not found",
     "insufficient permissions", "no permission")
)  # fmt: skip
_ABSENT_BEGINNINGS = ("not supported", "not available", "requested functionality has been")
_TROUBLE = re.compile(
    r"err!|unknown error|gpu is lost\b.{0,80}|gpu requires reset|corrupted inforom|timeout"
    r"|insufficient external power|interrupt request issue|gpu access blocked.{0,80}"
)
_LONGEST = 200  # of a value that can mean anything
_NUMBER = re.compile(r"(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s?(?P<unit>[a-z%]{0,4})")
_SWITCH = {
    "enabled": True, "disabled": False, "yes": True, "no": False,
    "active": True, "not active": False, "on": True, "off": False,
}  # fmt: skip


@dataclass(frozen=True)
class Leaf:
    value: str
    line: str  # as it was printed


@dataclass
class CardOutput:
    """`leaves` by path, such as `fb_memory_usage/total`; of repeated ones the first."""

    line: str
    address: str
    leaves: dict[str, Leaf] = field(default_factory=dict)
    processes: list[dict[str, Leaf]] = field(default_factory=list)
    clocks: list[tuple[str, str]] = field(default_factory=list)  # that it lists: tag and value
    is_closed: bool = False
    is_piece: bool = False  # without its head, which names the address


@dataclass
class SmiOutput:
    """`outside`: lines that belong to no card and no value: errors, warnings, anything else."""

    head: dict[str, Leaf] = field(default_factory=dict)
    cards: list[CardOutput] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    is_complete: bool = False

    def begin_card(self, line: str, address: str) -> CardOutput:
        card = CardOutput(line, address)
        if len(self.cards) < _MOST_CARDS:
            self.cards.append(card)
        else:
            self.outside.append(line)
        return card

    def begin_piece(self, line: str) -> CardOutput:
        card = self.begin_card(line, "")
        card.is_piece = True
        return card


def bare(value: str) -> str:
    """Without the brackets of `[N/A]`."""
    value = value.strip()
    bracketed = value.startswith("[") and value.endswith("]")
    return value[1:-1].strip() if bracketed else value


@lru_cache(maxsize=1024)
def is_absent(value: str) -> bool:
    plain = bare(value)[:_LONGEST].lower()
    return plain in _ABSENT or plain.startswith(_ABSENT_BEGINNINGS)


@lru_cache(maxsize=1024)  # each card says most of them again
def is_trouble(value: str) -> bool:
    plain = bare(value)
    return len(plain) <= _LONGEST and _TROUBLE.fullmatch(plain.lower()) is not None


def words(value: str) -> str:
    return value.strip()


def switch(value: str) -> bool | None:
    return _SWITCH.get(bare(value).lower())


def celsius(value: str) -> float | None:
    number = _number(value, ("c",))
    return float(number) if number else None


def watts(value: str) -> float | None:
    number = _number(value, ("w",))
    return float(number) if number and not number.startswith("-") else None


def _number(value: str, units: tuple[str, ...]) -> str | None:
    shape = _NUMBER.fullmatch(value.strip()[:_LONGEST].lower())
    return shape["number"] if shape and shape["unit"] in units else None


def _integer(*units: str) -> Callable[[str], int | None]:
    def read(value: str) -> int | None:
        number = _number(value, units)
        return whole(number) if number else None

    return read


count = _integer("")
lanes = _integer("x", "")
percent = _integer("%")
mebibytes = _integer("mib", "mb")
megahertz = _integer("mhz")


class Values:
    """Leaves of one card or of the head, by the names they have had. `unparsed`: their lines."""

    def __init__(self, leaves: Mapping[str, Leaf]) -> None:
        self._leaves = leaves
        self.unparsed: list[str] = []

    def get(self, reads: Callable[[str], Value | None], *paths: str) -> Value | None:
        """The first of these paths at which there is a value."""
        for path in paths:
            leaf = self._leaves.get(path)
            if leaf is None or is_absent(leaf.value) or is_trouble(leaf.value):
                continue
            value = reads(leaf.value)
            if value is not None:
                return value
            self.unparsed.append(leaf.line)
        return None

    def says(self, *paths: str) -> bool:
        return any(path in self._leaves for path in paths)

    def any(self, *paths: str) -> bool | None:
        found = [self.get(switch, path) for path in paths]
        known = [one for one in found if one is not None]
        return any(known) if known else None

    def sum(self, total: str, *parts: str) -> int | None:
        """The total, or what its parts come to; one in trouble or cut off may hide any number."""
        whole = self.get(count, total)
        if whole is not None:
            return whole
        found = [self.get(count, part) for part in parts]
        known = [one for one in found if one is not None]
        output = [self._leaves[part].value for part in parts if part in self._leaves]
        is_all = parts[-1] in self._leaves and not any(map(is_trouble, output))
        return sum(known) if any(known) or (known and is_all) else None
