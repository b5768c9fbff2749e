"""Steps in the firmware that no program can take, as this machine's board names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.catalog import find_gpu
from rigops.catalog.firmware import step
from rigops.concerns.preconditions.words import listed, shortened

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.catalog.firmware import Turn
    from rigops.catalog.model import Setting
    from rigops.probe.sections.firmware import Firmware
    from rigops.probe.sections.pci import Pci

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
