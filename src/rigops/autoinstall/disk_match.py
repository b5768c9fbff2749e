"""How an installer finds the one disk that it may wipe: by the identity that was captured.

Subiquity compares `serial` with udev's ID_SERIAL, as a glob. For NVMe that is model, serial number
and namespace number, where older versions of udev left the last one out. An ATA disk behind a SAS
adapter is known by its WWN. The preseed looks at ID_SERIAL, ID_SERIAL_SHORT and ID_WWN itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from rigops.capture.document import Disk
from rigops.dataclass import dataclass

SERIAL: Final = "ID_SERIAL"
SHORT: Final = "ID_SERIAL_SHORT"
WWN: Final = "ID_WWN"

# Characters that udev leaves in these values, so that nothing in them has to be quoted; the least
# length and variety that a number of its own has (a cheap enclosure says 000000000000 of each
# disk).
_PLAIN = re.compile(r"[A-Za-z0-9._:+/#=@,-]{6,200}")
_LEAST_VARIETY = 3
_NAMESPACE = re.compile(r"_[0-9]{1,4}")
_WWN_NUMBER = re.compile(r"0x([0-9a-f]{16,32})", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """A udev property, and a glob that its value has to match."""

    property: str
    glob: str

    def matches(self, properties: dict[str, str]) -> bool:
        return fnmatchcase(properties.get(self.property, ""), self.glob)


def entries(disk: Disk, others: Sequence[Disk]) -> tuple[Entry, ...]:
    """In order, the closest first; none that any version of udev lets match another disk."""
    is_twin = any(disk.id_serial == other.id_serial for other in others)
    foreign = [properties for other in others for properties in appearances(other)]
    return tuple(
        dict.fromkeys(
            entry
            for entry in _candidates(disk)
            if not (is_twin and entry.property == SERIAL)
            and not any(entry.matches(properties) for properties in foreign)
        )
    )


def appearances(disk: Disk) -> Iterator[dict[str, str]]:
    """The properties that it has, or would have with another udev or behind another adapter."""
    rest = {SHORT: disk.id_serial_short or "", WWN: disk.wwn or ""}
    base = _base(disk)
    serials = [disk.id_serial or "", base]
    if base and disk.transport == "nvme":
        serials += [f"{base}_{number}" for number in range(1, 10)]
    if found := _WWN_NUMBER.fullmatch(disk.wwn or ""):
        serials.append(f"3{found[1].lower()}")
    for serial in dict.fromkeys(serials):
        yield {SERIAL: serial, **rest}


def disks_matched(entry: Entry, disks: Iterable[Disk]) -> list[Disk]:
    return [
        disk for disk in disks if any(entry.matches(properties) for properties in appearances(disk))
    ]


def _candidates(disk: Disk) -> Iterator[Entry]:
    serial, short, wwn = disk.id_serial or "", disk.id_serial_short or "", disk.wwn or ""
    is_nvme = disk.transport == "nvme"
    if _names_one(serial):
        yield Entry(SERIAL, serial)
        base = _base(disk)
        if is_nvme and _names_one(base):
            yield Entry(SERIAL, f"{base}_[0-9]")
            yield Entry(SERIAL, base)
    if _names_one(short):
        yield Entry(SHORT, short)
        yield Entry(SERIAL, f"*_{short}")
        if is_nvme:
            yield Entry(SERIAL, f"*_{short}_[0-9]")
    if _names_one(wwn):
        yield Entry(WWN, wwn)
        if found := _WWN_NUMBER.fullmatch(wwn):
            yield Entry(SERIAL, f"3{found[1].lower()}")


def _base(disk: Disk) -> str:
    """ID_SERIAL without the number of a namespace."""
    serial, short = disk.id_serial or "", disk.id_serial_short or ""
    found = _NAMESPACE.search(serial, max(serial.rfind("_"), 0))
    is_number = found is not None and found.end() == len(serial)
    if disk.transport != "nvme" or not is_number or (short and serial.endswith(f"_{short}")):
        return serial
    return serial[: found.start()] if found else serial


def _names_one(value: str) -> bool:
    return bool(_PLAIN.fullmatch(value)) and len(set(value)) >= _LEAST_VARIETY
