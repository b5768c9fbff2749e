"""Where the names of people, machines and things stand in what a host says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from rigops.bundles.pseudonyms import is_pseudonym

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.bundles.pseudonyms import WordKind

UNAME: Final = "uname"

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}(?![A-Za-z0-9_.@-])"

_MODE: Final = r"^[bcdlps-](?:[r-][w-][xsStT-]){3}[.+@]? +[0-9]{1,9}"
_STAMP: Final = (
    r"(?:[^\W\d_]{2,9}\.? {1,2}[0-9]{1,2} [0-9:]{8}(?:\.[0-9]{1,9})?"
    r"|[0-9]{4}-[0-9-]{5}T[0-9:]{8}\S{0,16}|[^\W\d_]{2,4} [0-9]{4}-[0-9-]{5} [0-9:]{8} \S{1,6})"
)
_SPEAKER: Final = r"(?=kernel:|[A-Za-z][\w@./()-]{0,60}(?:\[[0-9]{1,9}\])?:(?: |$))"
_SERIAL: Final = (
    r"\b(?:serial[ _]?(?:number|no\.?|num)|(?:board|product|chassis)_serial|asset[ _]tag)"
    r"\"?\s*[:=]\s*\"?"
)


@dataclass(frozen=True)
class Place:
    """The pattern has one group: the name. Where none of the hints is, it need not be tried."""

    kind: WordKind
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()

    def may_be_in(self, text: str) -> bool:
        return not self.hints or any(hint in text for hint in self.hints)


def _place(kind: WordKind, pattern: str, *hints: str) -> Place:
    return Place(kind, re.compile(pattern, re.MULTILINE), hints)


_PLACES: Final = (
    _place("host", rf"^{_STAMP} ({_NAME}) {_SPEAKER}"),
    _place("host", rf"\b(?:[Hh]ostname|HOSTNAME)\s*[:=]\s*\"?({_NAME})", "ostname", "HOSTNAME"),
    _place(
        "host",
        rf"\"(?:host|hostname|node|nodename)\"\s*:\s*\"({_NAME})\"",
        '"host',
        '"node',
    ),
    _place(
        "user",
        rf"/(?:home|Users|run/media)/({_NAME})(?=[/\s:\"',]|$)",
        "/home/",
        "/Users/",
        "/media/",
    ),
    _place("user", rf"\bRequested-By: ({_NAME}) \(", "Requested-By"),
    _place(
        "user",
        rf"\b(?:USER|LOGNAME|SUDO_USER|USERNAME|User)=\"?({_NAME})",
        "USER",
        "LOGNAME",
        "User=",
    ),
    _place("user", rf"\b(?:for|of|by) user ({_NAME})", " user "),
    _place("user", rf"\bsudo(?:\[[0-9]{{1,9}}\])?:\s+({_NAME}) :", "sudo"),
    _place(
        "user", rf"\b(?:uid|gid|groups|owner)=[0-9]{{1,9}}\(({_NAME})\)", "id=", "groups=", "er="
    ),
    _place("user", rf"{_MODE} ({_NAME}) "),
    _place("user", rf"{_MODE} \S{{1,32}} +({_NAME}) "),
    _place("serial", rf"(?i){_SERIAL}([^\s\"',<][^\n\"',<]*)"),
    _place("serial", r"\b(?:ID_SERIAL(?:_SHORT)?|SERIAL)=\"?([^\s\"]+)", "SERIAL"),
    _place("serial", r"\"serial\"\s*:\s*\"([^\"\n]{1,80})\"", '"serial"'),
    _place("serial", r"<[a-z_]{0,20}serial[a-z_]{0,20}>([^<>\n]{1,80})</", "</"),
    _place("serial", r"/by-id/\S{1,120}?_([A-Z0-9-]{8,40}?)(?=-part[0-9]|[\s\"',:]|$)", "/by-id/"),
    _place("wifi", r"\b(?:ESSID|SSID|ssid)\s*[:=]\s*\"?([^\"\n]+)", "SSID", "ssid"),
    _place("wifi", r"^\s*ssid ([^\n]+)$", "ssid"),
    _place("wifi", r"\baccess-points:\s*\n\s*\"?([^\"\n:]{1,32})\"?:", "access-points"),
)
_NODE: Final = _place("host", rf"^Linux ({_NAME}) ")

_NO_SERIAL: Final = re.compile(
    r"\[?n/?a\]?|none|unknown.*|not .*|no .*|to be filled.*|default string|system serial number"
    r"|\S{1,3}|[0x. *-]+",
    re.IGNORECASE,
)
_NO_HOST: Final = frozenset({"localhost", "localhost.localdomain", "kernel", "none", "unknown"})
# Accounts that every machine has, or that a distribution's image comes with.
_EVERYBODYS: Final = frozenset(
    re.findall(
        r"\S+",
        """
        root nobody nogroup daemon bin sys sync adm man mail lp news uucp proxy backup list irc
        www-data disk tty dialout cdrom audio video render input kvm sgx plugdev users staff games
        wheel sudo admin utmp shadow docker libvirt libvirt-qemu sshd messagebus syslog polkitd
        rtkit avahi colord gdm sddm lightdm postfix git borg ollama nvidia-persistenced ubuntu
        debian fedora arch archlinux centos rocky almalinux pi user ec2-user vagrant builder buildd
        dvs-builder mockbuild
        """,
    )
)


def found_in(text: str) -> Iterator[tuple[WordKind, str]]:
    for place in _PLACES:
        names = place.pattern.findall(text) if place.may_be_in(text) else ()
        for name in names:
            if is_name(place.kind, name.strip()):
                yield place.kind, name.strip()


def nodes_in(uname: str) -> list[str]:
    return [name for name in _NODE.pattern.findall(uname) if is_name("host", name)]


def places(section: str) -> tuple[Place, ...]:
    return (*_PLACES, _NODE) if section == UNAME else _PLACES


def is_name(kind: WordKind, value: str) -> bool:
    """Whether it is somebody's: no placeholder, no account that every machine has."""
    if not value or is_pseudonym(value) or value == "***":
        return False
    if kind == "serial":
        return _NO_SERIAL.fullmatch(value) is None
    if kind == "host":
        return not (value.lower() in _NO_HOST or value.isdigit() or _is_address(value))
    if kind == "user":
        return not (
            value.lower() in _EVERYBODYS or value.startswith(("_", "systemd-")) or value.isdigit()
        )
    return True


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True
