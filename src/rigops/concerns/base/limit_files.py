"""What limits share: files to have, sizes, settings of systemd's daemons.

A daemon has a main file, and drop-ins of which the last by name wins. A K of a size is 1024 bytes,
whatever follows it.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MADE: Final = "# Made by rigops from limits in the inventory; made anew, never edited.\n"
UNLIMITED: Final = "unlimited"

_SIZE = re.compile(
    r"(?P<number>[0-9]{1,20}(?:\.[0-9]{1,9})?) ?(?P<unit>[KMGTPE]?)(?:i?B)?", re.IGNORECASE
)
_SETTING = re.compile(r"\s*(?P<key>[A-Za-z]{1,60})\s*=\s*(?P<value>.*?)\s*")
_FOLDERS = ("/usr/lib/", "/usr/local/lib/", "/run/", "/etc/")  # a later one hides an earlier name


@dataclass(frozen=True)
class PlannedFile:
    """A file to own. `live`: whether its content is in force, as far as rigops knows."""

    path: str
    content: str
    effect: str = ""
    live: bool = True


@dataclass(frozen=True)
class LimitPlan:
    files: tuple[PlannedFile, ...] = ()
    blockers: tuple[str, ...] = ()  # why a declaration would not hold
    notices: tuple[str, ...] = ()

    def __add__(self, other: LimitPlan) -> LimitPlan:
        return LimitPlan(
            self.files + other.files,
            self.blockers + other.blockers,
            self.notices + other.notices,
        )


def as_bytes(text: str) -> int | None:
    """None: it is no size. A part of a byte is dropped."""
    shape = _SIZE.fullmatch(text)
    if shape is None:
        return None
    power = " KMGTPE".index(shape["unit"].upper() or " ")
    return int(Fraction(shape["number"]) * 1024**power)


@dataclass(frozen=True)
class Setting:
    """Where somebody set a key, and to what."""

    path: str
    value: str

    def __str__(self) -> str:
        return f"{self.path} sets {self.value or 'nothing'}"


@dataclass(frozen=True)
class Others:
    """One key in the files of others: the value that counts, and one that would override ours."""

    last: Setting | None
    later: Setting | None

    def already(self, meant: Callable[[str], bool]) -> bool:
        return self.last is not None and meant(self.last.value)

    def overrides(self, meant: Callable[[str], bool]) -> Setting | None:
        return self.later if self.later is not None and not meant(self.later.value) else None


def others(files: Mapping[str, str], ours: str, key: str) -> Others:
    """Of the daemon whose drop-in ours is, such as /etc/systemd/system.conf.d/90-rigops.conf."""
    daemon = posixpath.basename(posixpath.dirname(ours)).removesuffix(".d")
    last = later = None
    for path in _in_order(files, daemon):
        if path == ours:
            continue
        shapes = map(_SETTING.fullmatch, files[path].splitlines())
        for value in (one["value"] for one in shapes if one and one["key"] == key):
            last = Setting(path, value)
            is_drop_in = posixpath.dirname(path).endswith(".d")
            if is_drop_in and posixpath.basename(path) > posixpath.basename(ours):
                later = last
    return Others(last, later)


def _in_order(files: Mapping[str, str], daemon: str) -> Iterator[str]:
    main = [path for path in files if path.endswith(f"/systemd/{daemon}")]
    yield from sorted(main, key=_folder)[-1:]
    by_name: dict[str, str] = {}
    drop_ins = [path for path in files if f"/systemd/{daemon}.d/" in path]
    for path in sorted(drop_ins, key=_folder):
        by_name[posixpath.basename(path)] = path
    yield from (path for _, path in sorted(by_name.items()))


def _folder(path: str) -> int:
    return max((at for at, folder in enumerate(_FOLDERS) if path.startswith(folder)), default=-1)
