"""Influences on NCCL here: settings, cached results, versions."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.homes import VISITED_HOMES
from rigops.probe.section import Section
from rigops.probe.text import GrepHit, Stamp, blocks, grep_hits, lines, preamble, stamps, stripped

PROCESSOR = "grep -m 1 vendor_id /proc/cpuinfo"
ASSIGNMENTS = "grep -Hn NCCL_"
IN_FILES_OF_HOMES = "grep -Hn NCCL_ in homes"
CACHES = "stat -c %Y %n gpu_p2p_access_cache_for_*.json"
LIBRARIES = "ls libnccl"
CLOSED = "homes that cannot be looked into"
UNREAD = "files in homes that are not read"

_CONF = re.compile(r"/.*/\.?nccl\.conf")
_PROCESSOR = re.compile(r"vendor_id\s*:\s*(\S{1,40})\s*")
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_])(?P<name>NCCL_[A-Z0-9_]{1,60})"
    r"=(?:\"(?P<double>[^\"]*)\"?|'(?P<single>[^']*)'?|(?P<bare>[^\s\"';]*))"
)
_SETTING = re.compile(r"\s*(?P<name>NCCL_[A-Z0-9_]{1,60})\s*=(?P<value>[^#]*)")
_VERSION = re.compile(
    r"/(?:libnccl\.so\.|nvidia_nccl_cu[0-9]{1,2}-)(?P<version>2(?:\.[0-9]{1,3}){1,3})"
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    name: str
    value: str
    file: str
    number: int  # of the line in the file
    line: str


@dataclass(frozen=True)
class Library:
    version: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Nccl:
    """`closed`: homes that could not be read, so that theirs is not known.

    `unread`: files and folders in homes that are links, of another owner, or no files.
    `is_complete`: the last question was reached, so that no setting is missing.
    """

    processor: str | None = None  # AuthenticAMD, GenuineIntel
    settings: tuple[Setting, ...] = ()
    caches: tuple[Stamp, ...] = ()  # what vLLM once found out about P2P
    libraries: tuple[Library, ...] = ()
    closed: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    is_complete: bool = False
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Nccl:
    processor: str | None = None
    settings: list[Setting] = []
    caches: list[Stamp] = []
    libraries: list[Library] = []
    closed: list[str] = []
    unread: list[str] = []
    unparsed = list(preamble(text))
    found_blocks = blocks(text)
    for head, body in found_blocks.items():
        left: list[str] = []
        if head == PROCESSOR:
            output = stripped(body)
            shape = _PROCESSOR.fullmatch(output[0]) if output else None
            processor, left = (shape[1], output[1:]) if shape else (None, output)
        elif head.startswith("grep -Hn"):
            found, left = _assignments(body)
            settings += found
        elif _CONF.fullmatch(head):
            found, left = _configured(head, body)
            settings += found
        elif head.startswith("stat "):
            stamped, left = stamps(body)
            caches += stamped
        elif head == LIBRARIES:
            # A link without a version in its name is normal.
            named = [(path, _VERSION.search(path)) for path in stripped(body)]
            libraries += [Library(version["version"], path) for path, version in named if version]
        elif head == CLOSED:
            closed += stripped(body)
        elif head == UNREAD:
            unread += stripped(body)
        else:
            left = [head]
        unparsed += left
    return Nccl(
        processor=processor,
        settings=tuple(settings),
        caches=tuple(caches),
        libraries=tuple(libraries),
        closed=tuple(closed),
        unread=tuple(unread),
        is_complete=LIBRARIES in found_blocks,
        unparsed=tuple(unparsed),
    )


def _assignments(body: str) -> tuple[list[Setting], list[str]]:
    found, unparsed = grep_hits(body)
    return [
        Setting(
            name=name, value=value.strip(), file=place.file, number=place.number, line=place.line
        )
        for place in found
        if not place.is_comment
        for name, value in _assigned(place)
    ], unparsed


def _assigned(place: GrepHit) -> list[tuple[str, str]]:
    if _CONF.fullmatch(place.file):
        shape = _SETTING.match(place.text)
        return [(shape["name"], shape["value"])] if shape else []
    return [
        (one["name"], one["double"] or one["single"] or one["bare"] or "")
        for one in _ASSIGNMENT.finditer(place.text)
    ]


def _configured(file: str, body: str) -> tuple[list[Setting], list[str]]:
    """NCCL's own file: one NAME=VALUE on a line, and the rest of the line after # is a comment."""
    found: list[Setting] = []
    unparsed: list[str] = []
    for number, line in enumerate(lines(body), start=1):
        shape = _SETTING.match(line)
        if shape:
            found.append(
                Setting(
                    name=shape["name"],
                    value=shape["value"].strip(),
                    file=file,
                    number=number,
                    line=line,
                )
            )
        elif line.strip() and not line.lstrip().startswith("#"):
            unparsed.append(line)
    return found, unparsed


_SNIPPET = rf"""{VISITED_HOMES}
block "{PROCESSOR}"
while IFS= read -r line; do
    case $line in *vendor_id*) say "$line"; break ;; '') break ;; esac
done </proc/cpuinfo
show /etc/nccl.conf

visit_homes </etc/passwd
block '{CLOSED}'
of_homes closed
block '{UNREAD}'
of_homes unread
block '{IN_FILES_OF_HOMES}'
of_homes setting

set -- /etc/environment /etc/environment.d/*.conf /etc/profile /etc/profile.d/* /etc/bash.bashrc \
    /etc/zsh/zshenv /etc/security/pam_env.conf /etc/systemd/system.conf \
    /etc/systemd/system.conf.d/*.conf /etc/systemd/system/*.service /etc/systemd/system/*.d/*.conf \
    /etc/systemd/user/*.service
block '{ASSIGNMENTS}'
found=$(grep -Hn -m 40 'NCCL_[A-Z0-9_]*=' "$@" 2>/dev/null </dev/null)
[ -z "$found" ] || say "$found" | head -n 2000

block '{CACHES}'
of_homes cache

block '{LIBRARIES}'
for file in /usr/lib/libnccl.so.2* /usr/lib64/libnccl.so.2* /usr/lib/*-linux-gnu/libnccl.so.2* \
    /usr/local/lib/libnccl.so.2* /usr/local/cuda*/lib64/libnccl.so.2*; do
    [ -e "$file" ] && echo "$file"
done
for top in /usr/lib /usr/local/lib /opt/*/lib; do
    for file in "$top"/python3*/*-packages/nvidia_nccl_cu*.dist-info; do
        [ -e "$file" ] && echo "$file"
    done
done
of_homes library
return 0
"""

_TECHNICAL = (
    f"{PROCESSOR} {ASSIGNMENTS} {CACHES} {LIBRARIES} {CLOSED} {UNREAD} /etc/nccl.conf AuthenticAMD "
    "GenuineIntel NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_IB_DISABLE nvidia_nccl_cu"
)

SECTION = Section(
    name="nccl",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,  # two users may hold up the reading of their homes, and nothing else
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
