"""What both forms of the output come to: values at paths, card by card."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_CARDS = 256  # no machine has as many; what comes after them is rubbish
DEEPEST = 12


@dataclass(frozen=True)
class Leaf:
    value: str
    line: str  # as it was printed


@dataclass
class SaidCard:
    """`leaves` by path, such as `fb_memory_usage/total`; of repeated ones the first."""

    line: str
    address: str
    leaves: dict[str, Leaf] = field(default_factory=dict)
    processes: list[dict[str, Leaf]] = field(default_factory=list)
    is_closed: bool = False

    def says(self, path: str, leaf: Leaf) -> None:
        self.leaves.setdefault(path, leaf)


@dataclass
class Said:
    """`outside`: lines that belong to no card and no value: errors, warnings, rubbish."""

    head: dict[str, Leaf] = field(default_factory=dict)
    cards: list[SaidCard] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    is_complete: bool = False
