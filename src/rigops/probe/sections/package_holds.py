"""What keeps packages as they are: holds, pins, and what unattended upgrades leave alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

_HOLDS = "apt-mark showhold"
_UNATTENDED = "apt-config dump Unattended-Upgrade"
_SETTING = re.compile(r'(?P<name>[\w:/-]+?)(?P<list>::)? "(?P<value>.*)";')
_BLACKLIST = "unattended-upgrade::package-blacklist"
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:\w+)?")


@dataclass(frozen=True)
class Pin:
    file: str
    package: str
    pin: str
    priority: int


@dataclass(frozen=True)
class PackageHolds:
    held: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    unattended_blacklist: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def parse(text: str) -> PackageHolds:
    held: tuple[str, ...] = ()
    pins: list[Pin] = []
    blacklist: tuple[str, ...] = ()
    unread: list[str] = []
    for head, body in blocks(text).items():
        if head == _HOLDS:
            names = [line.strip() for line in lines(body)]
            held = tuple(name for name in names if _PACKAGE.fullmatch(name))
            unread += [name for name in names if name and name not in held]
        elif head == _UNATTENDED:
            blacklist = _blacklist(body)
        elif head.startswith("/etc/apt/preferences"):
            pins += _pins(head, body)
        else:
            unread.append(head)
    return PackageHolds(held, tuple(pins), blacklist, tuple(unread))


def _blacklist(body: str) -> tuple[str, ...]:
    settings = [_SETTING.fullmatch(line.strip()) for line in lines(body)]
    return tuple(
        one["value"]
        for one in settings
        if one and one["name"].lower() == _BLACKLIST and one["list"]
    )


def _pins(file: str, body: str) -> list[Pin]:
    found: list[Pin] = []
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(lines(body))):
        fields: dict[str, str] = {}
        for line in stanza.split("\n"):
            name, colon, value = line.partition(":")
            if colon and not name.startswith(("#", " ", "\t")):
                fields[name.strip().lower()] = value.strip()
        priority = fields.get("pin-priority", "")
        if re.fullmatch(r"-?\d{1,6}", priority) and "package" in fields:
            found.append(Pin(file, fields["package"], fields.get("pin", ""), int(priority)))
    return found


_SNIPPET = f"""
command -v apt-mark >/dev/null || exit
run {_HOLDS}
show /etc/apt/preferences /etc/apt/preferences.d/*
run {_UNATTENDED}
exit 0
"""

SECTION = Section(name="package-holds", snippet=_SNIPPET, parse=parse, timeout_s=15)
