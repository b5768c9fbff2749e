"""Other sources of kernel arguments in GRUB's files, and the argument that counts in the end.

And the effect of those about the IOMMU on this machine, before they are added.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from rigops.catalog import Catalog
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.preconditions.firmware import in_the_bios
from rigops.concerns.preconditions.words import listed, shortened
from rigops.dataclass import dataclass
from rigops.probe import kernel_arguments as arguments
from rigops.probe.sections.firmware import Firmware
from rigops.probe.text import assignments

TUNED: Final = "/etc/tuned/bootcmdline"
_TRANSLATION: Final = ("iommu=nopt", "iommu.passthrough=0", "iommu.passthrough=off")
_OFF: Final = ("iommu=off", "intel_iommu=off", "amd_iommu=off")
# By the kernel's source: the handlers of these overwrite one value at each occurrence.
_LAST_COUNTS: Final = frozenset({"iommu.passthrough", "intel_iommu", "iommu.strict"})
# Each occurrence of these adds to what the others say.
_EACH_COUNTS: Final = frozenset({
    "console", "earlycon", "hugepages", "hugepagesz", "ip", "memmap", "modprobe.blacklist",
    "module_blacklist", "netconsole", "pci", "systemd.mask", "systemd.wants", "video",
})  # fmt: skip
_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?(?P<variable>GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(?P<adds>\+?)=(?P<value>.*)"
)


@dataclass(frozen=True)
class FileLine:
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class _Reset:
    """An assignment without the value before it. `lost`: what the first file had set."""

    place: FileLine
    variable: str
    lost: str


def conflicts(wanted: Collection[str], files: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments of others that contradict these, and resets of what the first file sets."""
    others = grub.foreign_arguments(files)
    return (
        *(_conflict(one, other, files) for one, other in _contradicting(wanted, others)),
        *(
            f"{reset.place}, overwrites {reset.variable}: the value of {grub.DEFAULTS} "
            f"({shortened(reset.lost)}) does not count"
            for reset in _resets(files)
            if not _is_later(reset.place.file)
        ),
    )


def blockers(wanted: Collection[str], files: Mapping[str, str]) -> tuple[str, ...]:
    """Files that overwrite what the file of rigops has set before them."""
    if not wanted:
        return ()
    return tuple(
        f"{reset.place}, overwrites {reset.variable} after {grub.DROP_IN}, so that "
        f'{" ".join(wanted)} would be lost: let it begin with "${reset.variable}", or give that '
        "file a name that comes before 99-rigops.cfg"
        for reset in _resets(files)
        if _is_later(reset.place.file) and reset.variable == "GRUB_CMDLINE_LINUX_DEFAULT"
    )


def tuned_arguments(tuned: str | None, wanted: Collection[str]) -> str:
    """Arguments that tuned's bootloader plugin adds to every boot, by its file; empty: none."""
    added = arguments.split(assignments(tuned or "").get("TUNED_BOOT_CMDLINE", ""))
    if not added:
        return ""
    conflicts = arguments.against(wanted, added).conflicts
    shown = shortened(" ".join(added))
    text = f"tuned adds kernel arguments of its own to every boot: {shown} ({TUNED})"
    if not conflicts:
        return text
    names = {arguments.name(one) for one in conflicts}
    ours = [one for one in wanted if arguments.name(one) in names]
    return (
        f"{text}; which of {listed([*ours, *map(shortened, conflicts)])} counts is uncertain: "
        "take it out of tuned's profile, or run `tuned-adm off`"
    )


def _contradicting(wanted: Collection[str], others: Collection[str]) -> Iterator[tuple[str, str]]:
    for one in wanted:
        same_name = arguments.against([one], others).conflicts
        if arguments.name(one) not in _EACH_COUNTS:
            yield from ((one, other) for other in same_name)
        if one in PASSTHROUGH:
            for other in dict.fromkeys(others):
                if other not in same_name and other in (*_TRANSLATION, *_OFF):
                    yield one, other


def _conflict(one: str, other: str, files: Mapping[str, str]) -> str:
    place = _place_of(other, files)
    at = f" ({place})" if place else ""
    last = other if place and _is_later(place.file) else one
    return f"{shortened(other)} is configured too{at}: {_verdict(one, other, last)}"


def _verdict(one: str, other: str, last: str) -> str:
    if other in _OFF and not one.startswith("intel_iommu="):
        return f"it switches that IOMMU off, so {one} does nothing"
    if (one in PASSTHROUGH and other in _TRANSLATION) or arguments.name(one) in _LAST_COUNTS:
        return f"of the two the kernel takes the last on its line, here {last}"
    if arguments.name(one) == "iommu":
        return f"the kernel reads both, and it does not undo {one}"
    return (
        f"most arguments take the last on the line, here {last}; whether this one does is not known"
    )


def _resets(files: Mapping[str, str]) -> Iterator[_Reset]:
    """Only those that lose something."""
    first: defaultdict[str, list[str]] = defaultdict(list)
    for line in files.get(grub.DEFAULTS, "").splitlines():
        if shape := _ASSIGNMENT.match(line):
            first[shape["variable"]].append(shape["value"].strip().strip("\"'"))
    for file in sorted(files):
        if file in (grub.DEFAULTS, grub.DROP_IN):
            continue
        for number, line in enumerate(files[file].splitlines(), 1):
            shape = _ASSIGNMENT.match(line)
            if shape is None or shape["adds"]:
                continue
            variable = shape["variable"]
            keeps = re.search(rf"\$(?:{variable}\b(?!_)|\{{{variable}\}})", shape["value"])
            lost = " ".join(filter(None, first[variable]))
            if not keeps and (_is_later(file) or lost):
                yield _Reset(FileLine(file, number), variable, lost)


def _place_of(argument: str, files: Mapping[str, str]) -> FileLine | None:
    """The last one, which is the one that counts."""
    found: FileLine | None = None
    for file in sorted(files, key=lambda path: (path != grub.DEFAULTS, path)):
        if file == grub.DROP_IN:
            continue
        for number, line in enumerate(files[file].splitlines(), 1):
            plain = line.partition("=")[2] if _ASSIGNMENT.match(line) else line
            words = re.split(r"[\s\"']+", plain)
            if argument in words and not line.lstrip().startswith("#"):
                found = FileLine(file, number)
    return found


def _is_later(file: str) -> bool:
    return file != grub.DEFAULTS and file > grub.DROP_IN


PASSTHROUGH: Final = ("iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on")
INTEL_ON: Final = "intel_iommu=on"

# Arguments for something that only an IOMMU can do.
_NEEDS_ONE: Final = (*PASSTHROUGH, INTEL_ON, "amd_iommu=force_isolation")


def passthrough_note(
    coming: Collection[str], with_them: Collection[str], firmware: Firmware | None
) -> str:
    """The effect of passthrough here; else empty.

    `with_them`: all arguments of the boot that they come with, foreign ones included.
    """
    direct = next((one for one in PASSTHROUGH if one in coming), None)
    if direct is None:
        return ""
    if leaves_intel_off(firmware) and INTEL_ON not in (*coming, *with_them):
        return (
            f"{direct} alone changes nothing here: this kernel leaves Intel's IOMMU off by "
            "default (CONFIG_INTEL_IOMMU_DEFAULT_ON is not set). With the IOMMU off P2P needs "
            "neither argument; for passthrough, "
            f'declare "kernel_args": ["{INTEL_ON}", "{direct}"]'
        )
    return f"{direct} removes DMA isolation: every device can reach all of the memory"


def leaves_intel_off(firmware: Firmware | None) -> bool:
    """Known to: an Intel machine, and a kernel that waits for intel_iommu=on."""
    return firmware is not None and firmware.cpu == "intel" and firmware.intel_by_itself is False


def without_an_iommu(catalog: Catalog, firmware: Firmware | None, coming: Collection[str]) -> str:
    """Arguments that ask for an IOMMU, where the firmware offers none. Else empty."""
    asking = [one for one in coming if one in _NEEDS_ONE]
    if not asking or firmware is None or firmware.offers_iommu is not False:
        return ""
    return (
        f"the firmware offers no IOMMU, so {listed(asking)} changes nothing; P2P needs no IOMMU, "
        f"virtual machines that get cards do: {in_the_bios(catalog, firmware, 'iommu')}"
    )
