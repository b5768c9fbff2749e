"""Where names of people, machines and things are found in a host's output, and what is not a name.

A name that was found in one place is a name everywhere, unless it may be a technical word too: a
host may be called `gpu` and a user `debian`. Each section declares its technical words. They hold
in all sections together, so that checks which compare sections compare the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from ipaddress import ip_address
from typing import Any, Final, get_args

from rigops.catalog import load
from rigops.dataclass import dataclass
from rigops.probe.bundles.pseudonyms import WordKind, is_pseudonym
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.network import NAME_OF_SLOT

UNAME: Final = "uname"

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}(?![A-Za-z0-9_.@-])"

_MODE: Final = r"^[bcdlps-](?:[r-][w-][xsStT-]){3}[.+@]? +[0-9]{1,9}"
_STAMP: Final = (
    r"(?:[^\W\d_]{2,9}\.? {1,2}[0-9]{1,2} [0-9:]{8}(?:\.[0-9]{1,9})?"
    r"|[0-9]{4}-[0-9-]{5}T[0-9:]{8}\S{0,16}|[^\W\d_]{2,4} [0-9]{4}-[0-9-]{5} [0-9:]{8} \S{1,6})"
)
_SPEAKER: Final = r"(?=kernel:|[A-Za-z][\w@./()-]{0,60}(?:\[[0-9]{1,9}\])?:(?: |$))"
_GAP: Final = r"[^\S\n]*"  # an empty value must not take the next line for its own
_SERIAL: Final = (
    r"\b(?:serial[ _]?(?:number|no\.?|num)|(?:board|product|chassis)_serial|asset[ _]tag)"
    rf"\"?{_GAP}[:=]{_GAP}\"?"
)


@dataclass(frozen=True)
class NamePattern:
    """The pattern has one group: the name. A text with none of the hints has no match."""

    kind: WordKind
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()

    def may_be_in(self, text: str) -> bool:
        return not self.hints or any(hint in text for hint in self.hints)


def _place(kind: WordKind, pattern: str, *hints: str) -> NamePattern:
    return NamePattern(kind, re.compile(pattern, re.MULTILINE), hints)


_PLACES: Final = (
    _place("host", rf"^{_STAMP} ({_NAME}) {_SPEAKER}"),
    _place(
        "host", rf"\b(?:[Hh]ostname|HOSTNAME){_GAP}[:=]{_GAP}\"?({_NAME})", "ostname", "HOSTNAME"
    ),
    _place(
        "host",
        rf"\"(?:host|hostname|node|nodename)\"{_GAP}:{_GAP}\"({_NAME})\"",
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
    _place("user", rf"\bsudo(?:\[[0-9]{{1,9}}\])?: +({_NAME}) :", "sudo"),
    _place(
        "user", rf"\b(?:uid|gid|groups|owner)=[0-9]{{1,9}}\(({_NAME})\)", "id=", "groups=", "er="
    ),
    _place("user", rf"{_MODE} ({_NAME}) "),
    _place("user", rf"{_MODE} \S{{1,32}} +({_NAME}) "),
    _place("serial", rf"(?i){_SERIAL}([^\s\"',<][^\n\"',<]*)"),
    _place("serial", r"\b(?:ID_SERIAL(?:_SHORT)?|SERIAL)=\"?([^\s\"]+)", "SERIAL"),
    _place("serial", rf"\"serial\"{_GAP}:{_GAP}\"([^\"\n]{{1,80}})\"", '"serial"'),
    _place("serial", r"<[a-z_]{0,20}serial[a-z_]{0,20}>([^<>\n]{1,80})</", "</"),
    _place("serial", r"/by-id/\S{1,120}?_([A-Z0-9-]{8,40}?)(?=-part[0-9]|[\s\"',:]|$)", "/by-id/"),
    _place("wifi", rf"\b(?:ESSID|SSID|ssid){_GAP}[:=]{_GAP}\"?([^\"\r\n]+)", "SSID", "ssid"),
    _place("wifi", rf"^{_GAP}ssid ([^\r\n]+)\r?$", "ssid"),
    _place("host", rf"({_NAME}):[0-9]{{1,9}}:[0-9]{{1,9}} \[[0-9]{{1,5}}\] ", "NCCL "),
    _place("host", rf"\bPid +[0-9]{{1,9}} on +({_NAME}) +device ", "Rank "),
    # In netplan's YAML: the only name that is on the line after its label.
    _place(
        "wifi",
        r"^[ \t]+access-points:[ \t]*\n[ \t]+\"?([^\"\n:]{1,32})\"?:[ \t]*(?:\{\}[ \t]*)?$",
        "access-points",
    ),
)
_NODE: Final = _place("host", rf"^Linux ({_NAME}) ")
_RELEASE: Final = re.compile(r"^Linux \S+ (\S+)", re.MULTILINE)

# Parts of an output that only people name: there a technical word may be a name, too. The group
# that matched is that part.
FREE_PARTS: Final = re.compile(
    r"/(?:mnt|srv|media|data|dev/mapper)/([^/\s\"',]+)|<process_name>([^<\n]+)|^signer:([^\n]+)"
    r"|\b(?:root|resume|rootflags|zfs|ip|cryptdevice|rd\.luks\.name|rd\.lvm\.[lv][vg])="
    r"([^\s\"']+)",
    re.MULTILINE,
)

_NUMBERED: Final = re.compile(r"(?P<letters>[a-z]+)[0-9]{1,3}")
_DIGITS: Final = re.compile(r"(?:0x)?[0-9a-f]{1,8}|0x[0-9a-f]+|[0-9]+(?:t[0-9]+)?")
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_SHORTEST: Final = 4  # shorter words are device names, units and abbreviations

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


def releases_in(uname: str) -> list[str]:
    """Of the kernel. Names of files and packages are compared with it."""
    return _RELEASE.findall(uname)


def places(section: str) -> tuple[NamePattern, ...]:
    return (*_PLACES, _NODE) if section == UNAME else _PLACES


def is_name(kind: WordKind, value: str) -> bool:
    """Whether it is a person's: no placeholder, no account that every machine has."""
    if not value or is_pseudonym(value) or value == "***" or _VERSION.fullmatch(value):
        return False
    if kind == "serial":
        is_word = value.isalpha() and _is_declared(value.lower())
        return not is_word and _NO_SERIAL.fullmatch(value) is None
    if kind == "host":
        return not (value.lower() in _NO_HOST or value.isdigit() or _is_address(value))
    if kind == "user":
        return not (
            value.lower() in _EVERYBODYS or value.startswith(("_", "systemd-")) or value.isdigit()
        )
    return True


def has_only_technical_words(section: str) -> bool:
    return any(one.name == section and one.technical == EVERY_WORD for one in _sections())


def is_technical(name: str) -> bool:
    """Also gpu0, sda1 and nv4, since a pattern may look for a word with a number; and enp5s0."""
    word = name.lower()
    if len(word) < _SHORTEST or NAME_OF_SLOT.fullmatch(word):
        return True
    if _DIGITS.fullmatch(word) or _is_declared(word):
        return True
    numbered = _NUMBERED.fullmatch(word)
    return numbered is not None and (
        len(numbered["letters"]) < _SHORTEST or _is_declared(numbered["letters"])
    )


@cache
def _is_declared(word: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", _technical()) is not None


@cache
def _technical() -> str:
    lines = (one.pattern for one in load(None).sought_lines)
    return " ".join([*(one.technical for one in _sections()), *get_args(WordKind), *lines]).lower()


def _sections() -> Sequence[Section[Any]]:
    from rigops.probe.registry import PASTED, SECTIONS  # noqa: PLC0415 - many, and seldom needed

    return (*SECTIONS, *PASTED)


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True
