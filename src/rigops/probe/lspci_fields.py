"""The lines below a function's head that matter to a rig: link, windows, ACS."""

from __future__ import annotations

import re
from dataclasses import dataclass

REDIRECTING = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})

_SPEED = re.compile(r"Speed ([0-9]{1,3}(?:\.[0-9]{1,2})?)\s*GT/s")
_WIDTH = re.compile(r"Width x([0-9]{1,3})")
_SPEEDS = re.compile(r"Link Speeds: ([0-9.]{1,5})(?:-([0-9.]{1,5}))?\s*GT/s")
_EVERY_SPEED = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
_REGION = re.compile(r"(?:Region ([0-9]): )?(?:\[virtual\] )?(Memory at|I/O ports at) (.*)")
_SIZE = re.compile(r"\[size=([0-9]{1,6})([KMGT]?)\]")
_NO_SPACE = ("<ignored>", "<unassigned>")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BAR_1 = re.compile(r"BAR 1: current size: \S{1,20}, supported: (.*)")
_BAR_SIZE = re.compile(r"[0-9]{1,6}[KMGT]B")
_BIT = re.compile(r"([A-Za-z]{3,20})([+-])")
_BITS = re.compile(rf"{_BIT.pattern}(?:\s+{_BIT.pattern})*")


@dataclass(frozen=True, kw_only=True)
class LspciLink:
    gt_per_s: float | None
    width: int | None
    line: str


@dataclass(frozen=True, kw_only=True)
class AcsControl:
    """The ACSCtl bits that are set, such as SrcValid and ReqRedir."""

    enabled: frozenset[str]
    line: str
    is_complete: bool = True  # all bits that redirect are named, set or not


@dataclass(frozen=True, kw_only=True)
class Region:
    index: int
    size_bytes: int | None  # None where there is none, as for <ignored>
    prefetchable: bool
    line: str


def link(line: str | None) -> LspciLink | None:
    if line is None:
        return None
    speed, width = _SPEED.search(line), _WIDTH.search(line)
    return LspciLink(
        gt_per_s=float(speed[1]) if speed else None,
        width=int(width[1]) if width else None,
        line=line,
    )


def speeds(line: str) -> tuple[float, ...]:
    shape = _SPEEDS.search(line)
    if shape is None:
        return ()
    try:
        slowest, fastest = float(shape[1]), float(shape[2] or shape[1])
    except ValueError:
        return ()
    return tuple(speed for speed in _EVERY_SPEED if slowest <= speed <= fastest)


def regions(body: list[str]) -> tuple[Region, ...]:
    """`lspci -v` does not number them: they follow each other, and one of 64 bits takes two."""
    found: list[Region] = []
    following = 0
    for line in body:
        shape = _REGION.match(line)
        if shape is None:
            continue
        index = int(shape[1]) if shape[1] else following
        following = index + (2 if "64-bit" in shape[3] else 1)
        size = _SIZE.search(line)
        has_space = size is not None and not any(word in line for word in _NO_SPACE)
        found.append(
            Region(
                index=index,
                size_bytes=int(size[1]) * _UNITS[size[2]] if size and has_space else None,
                prefetchable="prefetchable" in line and "non-prefetchable" not in line,
                line=line,
            )
        )
    return tuple(found)


def resizable(body: list[str]) -> tuple[tuple[str, ...], str]:
    of_functions = False  # a "Virtual Resizable BAR" is that of virtual functions
    for line in body:
        if line.startswith("Capabilities:"):
            of_functions = "Virtual Resizable BAR" in line
        shape = None if of_functions else _BAR_1.match(line)
        if shape:
            return tuple(filter(_BAR_SIZE.fullmatch, shape[1].split())), line
    return (), ""


def acs(body: list[str]) -> AcsControl | None:
    """A line that a mail has broken goes on in the next one."""
    at = next((i for i, line in enumerate(body) if line.startswith("ACSCtl:")), None)
    if at is None:
        return None
    line = body[at]
    if at + 1 < len(body) and _BITS.fullmatch(body[at + 1]):
        line = f"{line} {body[at + 1]}"
    bits = dict(_BIT.findall(line.partition(":")[2]))
    return AcsControl(
        enabled=frozenset(name for name, sign in bits.items() if sign == "+"),
        line=line,
        is_complete=bits.keys() >= REDIRECTING,
    )
