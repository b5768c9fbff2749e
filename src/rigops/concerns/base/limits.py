"""Common parts of limits, and limits of processes: locked memory and open files.

A daemon of systemd has a main file, and drop-ins of which the last by name wins. For logins
pam_limits reads /etc/security/limits.conf, then limits.d; there the wildcard does not include root
everywhere, and a line about a user or a group overrides it. A K of a size is 1024 bytes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.concerns.base.facts import HostState
    from rigops.inventory.spec.model import Limits
    from rigops.probe.sections import limits as section
    from rigops.probe.sections.limits import Bound, Configured

MADE: Final = "# Made by rigops from limits in the inventory; made anew, never edited.\n"
UNLIMITED: Final = "unlimited"

_SIZE = re.compile(
    r"(?P<number>[0-9]{1,20}(?:\.[0-9]{1,9})?) ?(?P<unit>[KMGTPE]?)(?:i?B)?", re.IGNORECASE
)
_SETTING = re.compile(r"\s*(?P<key>[A-Za-z]{1,60})\s*=(?P<value>.*)")
_FOLDERS = ("/usr/lib/", "/usr/local/lib/", "/run/", "/etc/")  # a later one hides an earlier name

SERVICES: Final = "/etc/systemd/system.conf.d/90-rigops.conf"

_KEYS: Final[Mapping[Item, str]] = {
    "memlock": "DefaultLimitMEMLOCK",
    "nofile": "DefaultLimitNOFILE",
}
LOGINS: Final = "/etc/security/limits.d/90-rigops.conf"

Item = Literal["memlock", "nofile"]

_FIRST: Final = "/etc/security/limits.conf"
_EVERYBODY: Final = ("*", "root")
_ENDLESS: Final = frozenset({"unlimited", "infinity", "-1"})
_SIDES: Final[Mapping[str, tuple[str, ...]]] = {
    "-": ("soft", "hard"),
    "soft": ("soft",),
    "hard": ("hard",),
}


@dataclass(frozen=True)
class PlannedFile:
    """A file to own. `live`: whether its content is in force, as far as rigops knows.

    `unit`: one of systemd's to enable and start.
    """

    path: str
    content: str
    effect: str = ""
    unit: str = ""
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
    """Where a key is set, and to which value."""

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
        for value in (one["value"].strip() for one in shapes if one and one["key"] == key):
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


def bounds(declared: Limits) -> dict[Item, Bound]:
    """Bytes of locked memory, and files."""
    found: dict[Item, Bound] = {}
    if declared.memlock is not None:
        endless = declared.memlock == UNLIMITED
        found["memlock"] = UNLIMITED if endless else as_bytes(declared.memlock) or 0
    if declared.nofile is not None:
        found["nofile"] = declared.nofile
    return found


def bounded(wanted: Mapping[Item, Bound], found: section.Limits, around: HostState) -> LimitPlan:
    """Files for logins and for services: neither reads those of the other."""
    if reason := _blocker(wanted, found, around):
        return LimitPlan(blockers=(reason,))
    return _at_logins(wanted, found.configured) + _of_services(wanted, around)


def _blocker(wanted: Mapping[Item, Bound], found: section.Limits, around: HostState) -> str:
    """PAM turns a login away whose limits the kernel refuses, root's included."""
    files = wanted.get("nofile")
    if isinstance(files, int) and around.most_files is not None and files > around.most_files:
        return (
            f"nofile {files} is above fs.nr_open, which is {around.most_files} here: every login "
            "would be refused"
        )
    ranges = {"memlock": found.memlock, "nofile": found.nofile}
    above = [
        item
        for item, bound in wanted.items()
        if (now := ranges[item]) is not None and not isinstance(now.hard, str)
        if isinstance(bound, str) or bound > now.hard
    ]
    if above and around.may_raise is False:
        return (
            f"not even root may raise {' and '.join(above)} here, as in a container: "
            "every login would be refused"
        )
    return ""


def _of_services(wanted: Mapping[Item, Bound], around: HostState) -> LimitPlan:
    now = {"memlock": around.service_memlock, "nofile": around.service_nofile}
    ours: list[str] = []
    blockers: list[str] = []
    pending: list[str] = []
    for item, bound in wanted.items():
        key = _KEYS[item]
        theirs = others(around.settings, SERVICES, key)
        means = _means(bound)
        if theirs.already(means):
            continue
        if overriding := theirs.overrides(means):
            blockers.append(f"{overriding} as {key}, which overrides the declaration")
        ours.append(f"{key}={'infinity' if bound == UNLIMITED else bound}\n")
        pending += [item] if now[item] not in {None, bound} else []
    content = f"{MADE}[Manager]\n{''.join(ours)}"
    files = (PlannedFile(SERVICES, content),) if ours else ()
    # A reload only for this could take the GPUs away from containers.
    count = "counts" if len(pending) == 1 else "count"
    when = "for services that start after the next boot or reload of systemd"
    notices = (f"{' and '.join(pending)} {count} {when}",) if pending else ()
    return LimitPlan(files, tuple(blockers), notices)


def _means(bound: Bound) -> Callable[[str], bool]:
    """Whether a value of systemd's, which may be SOFT:HARD, is this bound on both sides."""

    def means(value: str) -> bool:
        sides = value.split(":")
        found = [UNLIMITED if side == "infinity" else as_bytes(side) for side in sides]
        return found in ([bound], [bound, bound])

    return means


def _at_logins(wanted: Mapping[Item, Bound], configured: Sequence[Configured]) -> LimitPlan:
    """So that every login gets this, beside the lines of others."""
    foreign = sorted(
        (one for one in configured if one.file != LOGINS),
        key=lambda one: (one.file != _FIRST, one.file),
    )
    ours: list[str] = []
    later: list[Configured] = []  # lines that override ours
    own: list[Configured] = []  # limits of a user or a group
    for item, bound in wanted.items():
        # Locked memory in KiB, rounded up: what was declared has to fit.
        value = str(-(-bound // 1024) if item == "memlock" and isinstance(bound, int) else bound)
        theirs = [one for one in foreign if one.item == item and one.kind in _SIDES]
        for domain in _EVERYBODY:
            rows = [one for one in theirs if one.domain == domain]
            last = {side: _value(one) for one in rows for side in _SIDES[one.kind]}
            if last != {"soft": value, "hard": value}:
                ours.append(f"{domain} - {item} {value}\n")
                later += [one for one in rows if one.file > LOGINS and _value(one) != value]
        own += [one for one in theirs if one.domain not in _EVERYBODY and _value(one) != value]
    return LimitPlan(
        (PlannedFile(LOGINS, f"{MADE}{''.join(ours)}"),) if ours else (),
        tuple(f"{one.file} overrides the declaration: {one.line}" for one in dict.fromkeys(later)),
        tuple(f"{one.domain} keeps a limit of its own ({one.file}: {one.line})" for one in own),
    )


def _value(one: Configured) -> str:
    return UNLIMITED if one.value in _ENDLESS else one.value
