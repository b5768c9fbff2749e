"""Steps in the firmware that no program can take, as this machine's board names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from rigops.catalog import Catalog, find_gpu
from rigops.catalog.model import BoardWords, FirmwareSetting, Setting
from rigops.concerns.preconditions.words import listed, shortened
from rigops.dataclass import dataclass
from rigops.probe.sections.pci import Pci

if TYPE_CHECKING:
    from rigops.probe.sections.firmware import Firmware


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


_GIB: Final = 1 << 30
_NEARLY: Final = 0.9  # a card counts some of its memory as its own


def in_the_bios(
    catalog: Catalog, firmware: Firmware | None, *settings: Setting, turn: Turn = "on"
) -> str:
    """One sentence: which board, what to set there, what goes with it, and how to see it."""
    vendor, cpu = (firmware.vendor, firmware.cpu) if firmware else ("", "")
    steps = [step(catalog, setting, turn, vendor=vendor, cpu=cpu) for setting in settings]
    board = f" of {shortened(firmware.name)}" if firmware and firmware.name else ""
    along = tuple(dict.fromkeys(word for one in steps for word in one.along))
    more = f", with {listed(along)}" if along else ""
    do = ", then ".join(one.do for one in steps)
    seen = "; ".join(one.seen for one in steps)
    return f"in the BIOS{board} {do}{more}; whether it took: {seen}"


def for_large_windows(catalog: Catalog, firmware: Firmware | None, pci: Pci) -> str:
    """Cards whose memory does not fit into their BAR1, which P2P over PCIe wants. Else nothing."""
    small = [
        f"{one.address} ({_spelled(one.bar1_bytes)} of {memory} GiB)"
        for one in pci.nvidia_gpus
        if one.bar1_bytes is not None
        and (memory := _memory_gib(catalog, one.device))
        and one.bar1_bytes < _NEARLY * memory * _GIB
    ]
    if not small:
        return ""
    return (
        f"P2P is required, and BAR1 is smaller than the memory of GPU {listed(small)}: "
        f"{in_the_bios(catalog, firmware, 'above-4g', 'resizable-bar')}"
    )


def _memory_gib(catalog: Catalog, device: int | None) -> int:
    model = find_gpu(catalog, f"10de:{device:04x}").only if device is not None else None
    return model.memory_gib if model else 0


def _spelled(size: int) -> str:
    return f"{size // _GIB} GiB" if size >= _GIB else f"{size >> 20} MiB"
