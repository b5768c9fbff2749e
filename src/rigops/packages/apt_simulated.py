"""The parsed output of `apt-get -s`: what apt would do, or why it would not. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import takewhile

from rigops.dataclass import dataclass
from rigops.plan.change import Package
from rigops.probe.text import blocks, lines

_STEP = re.compile(
    r"(?P<kind>Inst|Remv|Purg) (?P<name>[a-z0-9][a-z0-9+.:-]*)"
    r"(?: \[(?P<before>[^\]\s]+)\])?(?: \((?P<after>[^)\s]+).*)?.*"
)
_SIZE = re.compile(r"'(?!file:)[^']*' \S+ (?P<bytes>[0-9]{1,15})(?: .*)?")
_AMOUNT = r"[0-9,]{1,15}(?:\.[0-9]{1,3})? [kMGTP]?B"
_GROWTH = re.compile(
    rf"(?:After this operation, (?P<more>{_AMOUNT}) of additional disk space will be used"
    rf"|  Space needed: (?P<needed>{_AMOUNT}) / .*)\.?"
)
_ROOM = re.compile(r"(?P<label>\S+) .* (?P<free>-?[0-9]{1,15}) +[0-9]+% (?P<mount>/.*)")
_KNOWN = re.compile(r" *(?P<name>[a-z0-9][a-z0-9+.:-]*) \| +(?P<version>\S+) \| .*")
_BOOT_FILE = re.compile(r"(?P<bytes>[0-9]{1,15}) /boot/(?P<kind>initrd|vmlinuz|initramfs).*")
_TIME = re.compile(r"[0-9]{1,15}")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_HELD = "The following held packages will be changed:"
_UNMET = "The following packages have unmet dependencies:"


@dataclass(frozen=True)
class Room:
    mount: str
    free: int  # bytes


@dataclass(frozen=True)
class Simulated:
    """`printed` are apt's own lines of what it would do, sorted: they identify the whole of it."""

    done: bool = False
    steps: tuple[Package, ...] = ()
    printed: tuple[str, ...] = ()
    held_changed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # versions in the sources
    has_lists: bool = True
    lists_age_s: int | None = None
    download: int = 0  # bytes to fetch, and what unpacking them takes on top of what is there
    growth: int = 0
    room: Mapping[str, Room] = field(default_factory=dict)  # archives, dpkg, usr, boot
    boot_files: Mapping[str, int] = field(default_factory=dict)  # the largest initrd and vmlinuz
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Simulated:
    found = blocks(text)
    printed = lines(found.get("simulated", ""))
    acting = [line for line in printed if line.startswith(("Inst ", "Remv ", "Purg "))]
    shapes = [(line, _STEP.fullmatch(line)) for line in acting]
    sizes = lines(found.get("sizes", ""))
    boot = filter(None, map(_BOOT_FILE.fullmatch, lines(found.get("boot", ""))))
    return Simulated(
        done=found.get("code", "").strip() == "0",
        steps=_steps([shape for _, shape in shapes if shape]),
        printed=tuple(sorted(acting)),
        held_changed=tuple(" ".join(_below(_HELD, printed)).split()),
        errors=tuple(line[3:] for line in printed if line.startswith("E: ")),
        unmet=_unmet(printed),
        known=_known(lines(found.get("versions", ""))),
        has_lists=found.get("lists", "1").strip() != "0",
        lists_age_s=_age(found.get("age", "")),
        download=sum(int(one["bytes"]) for one in map(_SIZE.fullmatch, sizes) if one),
        growth=_growth(sizes),
        room={
            shape["label"]: Room(shape["mount"], int(shape["free"]) * 1024)
            for shape in map(_ROOM.fullmatch, lines(found.get("room", "")))
            if shape
        },
        boot_files={  # the largest comes last
            "vmlinuz" if one["kind"] == "vmlinuz" else "initrd": int(one["bytes"])
            for one in sorted(boot, key=lambda one: int(one["bytes"]))
        },
        unparsed=tuple(line for line, shape in shapes if shape is None),
    )


def _steps(shapes: list[re.Match[str]]) -> tuple[Package, ...]:
    """Apt may take a package away and bring it again: what counts is what comes of it."""
    found: dict[str, Package] = {}
    for shape in shapes:
        name = shape["name"]
        earlier = found.get(name)
        before = earlier.before if earlier else shape["before"]
        after = shape["after"] if shape["kind"] == "Inst" else None
        found[name] = Package(name, before, after)
    return tuple(step for step in found.values() if step.before != step.after)


def _below(head: str, printed: list[str]) -> Iterator[str]:
    """The indented lines below a sentence of apt's."""
    after = printed[printed.index(head) + 1 :] if head in printed else []
    return takewhile(lambda line: line.startswith(" "), after)


def _unmet(printed: list[str]) -> tuple[str, ...]:
    """One line a fault, each beginning with the package that has it."""
    found: list[str] = []
    name = ""
    for line in _below(_UNMET, printed):
        owner, colon, rest = line.partition(" : ")
        if colon:
            name = owner.strip()
            found.append(f"{name}: {rest.strip()}")
        elif re.match(r" +(?:Pre)?Depends: | +Conflicts: | +Breaks: ", line):
            found.append(f"{name}: {line.strip()}")
        elif found:
            found[-1] += f" {line.strip()}"
    return tuple(found)


def _known(rows: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for shape in filter(None, map(_KNOWN.fullmatch, rows)):
        found[shape["name"]][shape["version"]] = None
    return {name: tuple(versions) for name, versions in found.items()}


def _age(text: str) -> int | None:
    numbers = [int(word) for word in text.split() if _TIME.fullmatch(word)]
    return max(numbers[0] - max(numbers[1:]), 0) if len(numbers) > 1 else None


def _growth(sizes: list[str]) -> int:
    for shape in filter(None, map(_GROWTH.fullmatch, sizes)):
        number, unit = (shape["more"] or shape["needed"]).split()
        return int(float(number.replace(",", "")) * _UNITS[unit])
    return 0
