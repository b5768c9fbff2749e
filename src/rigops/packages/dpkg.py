"""dpkg's states of packages, its unfinished or running work, and comparing versions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from itertools import zip_longest
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.text import blocks, lines

Manager = Literal["apt", "dnf", "zypper", "pacman"]

_ENTRY = re.compile(
    r"(?P<wants>[uihrp])(?P<status>[ncHUFWti])(?P<flag>[ R])\t(?P<name>[a-z0-9][a-z0-9+.-]*)\t"
    r"(?P<architecture>[a-z0-9-]*)\t(?P<version>\S*)(?:\t(?P<configured>\S*))?"
)
_HOLDER = re.compile(r"(?P<pid>[0-9]{1,15}) (?P<name>.*)")
_MANAGERS: Final[dict[str, Manager]] = {
    "apt-get": "apt", "dnf": "dnf", "zypper": "zypper", "pacman": "pacman"
}  # fmt: skip
_PART = re.compile(r"([^0-9]*)([0-9]*)")
_EPOCH = re.compile(r"[0-9]{1,15}")
_END: Final = ((0,), (0, ""))


@dataclass(frozen=True)
class Entry:
    name: str
    architecture: str
    version: str
    status: str  # one letter, as dpkg abbreviates it: i, c, n, U, F, H, W, t
    held: bool = False
    must_be_reinstalled: bool = False
    configured: str = ""  # the version that was configured before dpkg began its work

    @property
    def is_in_trigger(self) -> bool:
        """Its script was cut off in a trigger, which another package's change had activated."""
        return self.status == "F" and self.configured == self.version

    @property
    def is_installed(self) -> bool:
        return self.status == "i"

    @property
    def is_there(self) -> bool:
        """Also where it was unpacked and no more."""
        return self.status not in "nc"


@dataclass(frozen=True)
class Holder:
    """A process that has a lock of apt's or dpkg's."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


@dataclass(frozen=True)
class DpkgState:
    manager: Manager | None = None
    architecture: str = ""
    entries: tuple[Entry, ...] = ()
    unfinished: tuple[Entry, ...] = ()  # of all packages, those that dpkg did not bring to an end
    interrupted: bool = False  # dpkg was cut off while it wrote down what it did
    holder: Holder | None = None
    owned: str | None = None  # the record of packages that rigops brought; None where there is none

    def get(self, name: str) -> Entry | None:
        """By name, or by name:architecture; the host's own architecture where none is named."""
        plain, _, architecture = name.partition(":")
        wanted = {architecture} if architecture else {self.architecture, "all"}
        there = [one for one in self.entries if one.name == plain and one.is_there]
        return next((one for one in there if one.architecture in wanted), None)


def parse(text: str) -> DpkgState:
    found = blocks(text)
    managers = [line for line in lines(found.get("manager", "")) if line in _MANAGERS]
    holder = _HOLDER.match(found.get("holder", ""))
    return DpkgState(
        manager=_MANAGERS[managers[0]] if managers else None,
        architecture=found.get("architecture", "").strip(),
        entries=_entries(found.get("packages", "")),
        unfinished=_entries(found.get("unfinished", "")),
        interrupted=bool(found.get("updates", "").strip()),
        holder=Holder(int(holder["pid"]), holder["name"].strip() or "?") if holder else None,
        owned=found.get("owned"),
    )


def _entries(text: str) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            name=one["name"],
            architecture=one["architecture"],
            version=one["version"],
            status=one["status"],
            held=one["wants"] == "h",
            must_be_reinstalled=one["flag"] == "R",
            configured=one["configured"] or "",
        )
        for one in map(_ENTRY.fullmatch, lines(text))
        if one
    )


def compare(one: str, other: str) -> int:
    """Below zero where `one` is older, as `dpkg --compare-versions` has it."""
    left, right = _split(one), _split(other)
    if left[0] != right[0]:
        return left[0] - right[0]
    return _compare(left[1], right[1]) or _compare(left[2], right[2])


def nearest(version: str, known: Iterable[str]) -> tuple[str, ...]:
    """The neighbors below and above."""
    every = sorted(set(known), key=cmp_to_key(compare))
    below = [one for one in every if compare(one, version) < 0][-1:]
    above = [one for one in every if compare(one, version) > 0][:1]
    return tuple(below + above)


def upstream(version: str) -> str:
    """Without epoch and revision: `1:1.18.2-1` is 1.18.2."""
    return _split(version)[1]


def _split(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon or not _EPOCH.fullmatch(epoch):
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    return (int(epoch), upstream, revision) if dash else (int(epoch), rest, "")


def _compare(one: str, other: str) -> int:
    for left, right in zip_longest(_parts(one), _parts(other), fillvalue=_END):
        if left != right:
            return -1 if left < right else 1
    return 0


def _parts(text: str) -> list[tuple[tuple[int, ...], tuple[int, str]]]:
    """Letters and numbers by turns. The end of letters sorts after ~ and before all else."""
    found = [one for one in _PART.findall(text) if any(one)]
    return [((*map(_order, letters), 0), _number(digits)) for letters, digits in found]


def _number(digits: str) -> tuple[int, str]:
    """In the order of the numbers, of any length."""
    significant = digits.lstrip("0")
    return len(significant), significant


def _order(letter: str) -> int:
    if letter == "~":
        return -1
    return ord(letter) if letter.isalpha() else ord(letter) + 256
