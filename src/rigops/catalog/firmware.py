"""Firmware settings in the words of the board, for a person to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import BoardWords, FirmwareSetting, Setting

Turn = Literal["on", "off"]


@dataclass(frozen=True)
class FirmwareStep:
    """`do`: in the words of the board. `along`: what to set with it. `seen`: how to verify it."""

    do: str
    along: tuple[str, ...]
    seen: str


def step(
    catalog: Catalog, setting: Setting, turn: Turn, *, vendor: str = "", cpu: str = ""
) -> FirmwareStep:
    """`vendor` as DMI names the board's; an unknown board gets the words of most."""
    entry = next(one for one in catalog.firmware if one.setting == setting)
    boards = list(_boards_like(entry, vendor, cpu))
    names = []
    for board in boards:
        words = " or ".join(f'"{word}"' for word in board.words)
        names.append(f"{words} (under {board.place})" if board.place else words)
    do = f"turn {turn} {' or '.join(dict.fromkeys(names))}"
    along = dict.fromkeys(word for board in boards for word in board.along)
    return FirmwareStep(do, tuple(along) if turn == "on" else (), entry.seen)


def _boards_like(entry: FirmwareSetting, vendor: str, cpu: str) -> Iterator[BoardWords]:
    """Those of the maker, else those of every board; for either CPU where it is not known."""
    name = vendor.lower()
    for kind in [cpu] if cpu else ["amd", "intel"]:
        for_cpu = [one for one in entry.boards if one.cpu in ("any", kind)]
        own = [one for one in for_cpu if any(maker in name for maker in one.makers)]
        # "ASRock" and "ASRockRack" are two makers: the longer name that fits is meant.
        longest = max((_fit(one, name) for one in own), default=0)
        yield from (
            [one for one in own if _fit(one, name) == longest]
            or [one for one in for_cpu if not one.makers]
        )


def _fit(board: BoardWords, name: str) -> int:
    return max((len(maker) for maker in board.makers if maker in name), default=0)
