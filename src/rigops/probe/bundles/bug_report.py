"""Splits the log of nvidia-bug-report.sh into sections, as it streams by.

The script writes a line of underscores, then `*** PATH` and the file, or a command's name and its
output. Standard error is mostly lost, so empty output shows nothing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from rigops.probe.bundle import BROKEN_PIPE, Bundle, Collected
from rigops.probe.bundles import bug_report_logs
from rigops.probe.kernel_log.stamps import MONTHS

_LONGEST_LINE: Final = 64 * 1024
_START: Final = b"Start of NVIDIA bug report log file."
_END: Final = b"End of NVIDIA bug report log file."
_GONE: Final = b" does not exist"
_LOCKED: Final = b" is not readable"

# Lines after which something else begins. They begin a line, as no line of a log does.
_MARK: Final = re.compile(
    rb"^(?:____________________|\*\*\* (?:/|ls: )|Date: |uname: |dmesg:|End of NVIDIA|"
    rb" {0,2}journalctl -b |  /var/log/|Scanning kernel |"
    rb"/proc/(?:cmdline|driver/nvidia/)|/(?:etc|usr/lib)/os-release|"
    rb"/[^\s:]{0,200}/(?:nvidia-smi|lspci|modinfo|dmidecode|nvidia-debugdump) )[^\n]*",
    re.MULTILINE,
)
_PARTS: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("os-release", rb"(?:\*\*\* )?/(?:etc|usr/lib)/os-release"),
        ("proc-cmdline", rb"(?:\*\*\* )?/proc/cmdline"),
        ("nvidia-version", rb"(?:\*\*\* )?/proc/driver/nvidia/(?:\S{1,20}/)?version"),
        ("nvidia-params", rb"(?:\*\*\* )?/proc/driver/nvidia/(?:\S{1,20}/)?params"),
        ("nvidia-modinfo", rb"/\S+/modinfo nvidia(?:-current)? .*"),
        ("lspci", rb"/\S+/lspci -nnDvvvx+"),
        ("lspci -nn", rb"/\S+/lspci -nn"),
        ("lspci -d", rb"/\S+/lspci -d \"?10de:\*?\"? -v -xxx+"),
        ("lspci -t", rb"/\S+/lspci -(?:nn)?tv?"),
        ("nvidia-smi-xml", rb"/\S+/nvidia-smi (?:--query|-q)"),
        ("nvidia-smi-topo", rb"/\S+/nvidia-smi topo (?:--matrix|-m)"),
        ("nvidia-smi-nvlink", rb"/\S+/nvidia-smi nvlink (?:--status|-s)"),
        ("nvidia-smi-nvlink -e", rb"/\S+/nvidia-smi nvlink (?:--errorcounters|-e)"),
        ("dmesg", rb"dmesg:"),
        ("journal 0", rb" *journalctl -b -0:?"),
        ("journal 1", rb" *journalctl -b -1:?"),
        ("journal 2", rb" *journalctl -b -2:?"),
        ("kern.log", rb"(?:\*\*\*| ) /var/log/kern\.log:?"),
        ("kernel.log", rb"(?:\*\*\*| ) /var/log/kernel\.log:?"),
        ("messages", rb"(?:\*\*\*| ) /var/log/messages:?"),
        ("syslog", rb"(?:\*\*\*| ) /var/log/syslog:?"),
    )
)
_ALSO_IN_FILES: Final = (b"Date: ", b"uname: ", b"/proc/", b"/etc/", b"/usr/lib/os-release")
_MOST_STAMPS: Final = 200  # enough to find one of that day
_JOURNALS: Final = ("journal 0", "journal 1", "journal 2")
_FILES: Final = ("kern.log", "kernel.log", "messages", "syslog")
_LOGS: Final = frozenset({"dmesg", *_JOURNALS, *_FILES})
# Here a missing file is complete information.
_COMPLETE_IF_ABSENT: Final = frozenset({"nvidia-version", "nvidia-params"})
_NODE: Final = re.compile(r"Linux (\S+) ")
_MOST: Final = 4 * 1024 * 1024  # bytes of one part
_FIRST_OF_A_LOG: Final = 1024 * 1024

# A card's serial number is in its configuration space, which no parser reads.
_HEX_DUMP: Final = re.compile(r"^[0-9a-f]{2,3}:(?: [0-9a-f]{2}){1,16}[ \r]*\n?", re.MULTILINE)

_CLOCK: Final = re.compile(r"\b([0-9]{1,2})[:.]([0-9]{2})[:.]([0-9]{2})\b(?: ?([AaPp])\.?[Mm]\b)?")
_YEAR: Final = re.compile(r"\b((?:19|20)[0-9]{2})\b")
_DAY: Final = re.compile(r"\b([0-9]{1,2})\b")
_LETTERS: Final = re.compile(r"[^\W\d_]{3,12}")
_ZONE: Final = re.compile(r"(?:^| )([+-][0-9]{2})(?::?([0-9]{2}))?(?: |$)")
_UTC: Final = re.compile(r"\b(?:UTC|GMT)\b")
_FULL_TIME: Final = re.compile(
    r" (\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d(?:\.\d{1,12})? ([+-]\d{2})(\d{2}) ", re.ASCII
)


def begins(content: bytes) -> bool:
    return _START in content


def read(pieces: Iterable[bytes], *, host: str) -> Bundle:
    """`host` is its name if the log has none."""
    splitter = _Splitter()
    for line_or_text, is_mark in _scan(pieces):
        if is_mark:
            splitter.mark(line_or_text)
        else:
            splitter.add(line_or_text)
    return splitter.bundle(host)


def _scan(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Texts, and the marks between them. Lines are whole unless they are absurdly long."""
    rest, in_a_line = b"", False
    for piece in pieces:
        rest += piece
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) < _LONGEST_LINE:
            continue
        text, rest = (rest[:end], rest[end:]) if end else (rest, b"")
        yield from _marked(text, in_a_line=in_a_line)
        in_a_line = not end
    yield from _marked(rest, in_a_line=in_a_line)


def _marked(text: bytes, *, in_a_line: bool) -> Iterator[tuple[bytes, bool]]:
    at = text.find(b"\n") + 1 or len(text) if in_a_line else 0
    if at:
        yield text[:at], False
    for mark in _MARK.finditer(text, at):
        if mark.start() > at:
            yield text[at : mark.start()], False
        yield mark[0].rstrip(), True
        at = min(mark.end() + 1, len(text))
    if at < len(text):
        yield text[at:], False


class _Part:
    """One output, within bounds: its beginning, and of a log its end too."""

    def __init__(self, *, keeps_end: bool) -> None:
        self.is_gone = False
        self.is_incomplete = False
        self._first = bytearray()
        self._last: deque[bytes] = deque()
        self._last_length = 0
        self._most_first = _FIRST_OF_A_LOG if keeps_end else _MOST
        self._most_last = _MOST - _FIRST_OF_A_LOG if keeps_end else 0

    def add(self, text: bytes) -> None:
        room = self._most_first - len(self._first)
        if room > 0:
            self._first += text[:room]
            text = text[room:]
        if not text:
            return
        self._last.append(text)
        self._last_length += len(text)
        while self._last_length > self._most_last and self._last:
            self.is_incomplete = True
            self._last_length -= len(self._last.popleft())

    def text(self, *, keeps_blank: bool = False) -> str:
        """Without the blank lines around it. Incomplete lines in the middle are left out.

        The last line keeps its own end: without one it is incomplete. `keeps_blank`: a blank line
        at the end stays, where only that shows that nothing is missing.
        """
        first, last = bytes(self._first), b"".join(self._last)
        if len(first) == self._most_first and self.is_incomplete:
            first = first[: first.rfind(b"\n") + 1]
            last = last[last.find(b"\n") + 1 :]
        whole = (first + last).decode("utf-8", "replace")
        inner = whole.strip("\r\n")
        ends = whole[len(whole.rstrip("\r\n")) :].count("\n")
        return inner + "\n" * min(ends, 1 + keeps_blank) if inner.strip() else ""


class _Splitter:
    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}
        self._current: _Part | None = None
        self._in_prologue = True
        self._ended = False
        self._date = ""
        self._uname = ""
        self._past_uname = False
        self._stamps: list[str] = []  # `ls` lines: they know the time zone by number

    def add(self, text: bytes) -> None:
        self._past_uname = self._past_uname or bool(self._uname)
        if self._current:
            self._current.add(text)

    def mark(self, line: bytes) -> None:
        if line.startswith(b"*** ls: "):
            if len(self._stamps) < _MOST_STAMPS:
                self._stamps.append(line.decode("utf-8", "replace"))
        elif self._in_prologue and line.startswith(b"Date: "):
            self._date = line[6:].decode("utf-8", "replace").strip()
        elif self._in_prologue and line.startswith(b"uname: "):
            self._uname = line[7:].decode("utf-8", "replace").strip()
            self._in_prologue = False
        elif _part_of(line) is None and line.startswith(_ALSO_IN_FILES):
            self.add(line + b"\n")
        else:
            self._ended = self._ended or line.startswith(_END)
            self._current = self._begin(line)

    def _begin(self, line: bytes) -> _Part | None:
        name = _part_of(line)
        if name is None:
            return None
        part = _Part(keeps_end=name in _LOGS)
        part.is_gone, part.is_incomplete = line.endswith(_GONE), line.endswith(_LOCKED)
        known = self._parts.get(name)
        if known is not None and not known.is_gone:
            return None  # of several instances of the driver, the first
        self._parts[name] = part
        return part

    def bundle(self, host: str) -> Bundle:
        if self._current and not self._ended:
            self._current.is_incomplete = True
        node = _NODE.match(self._uname)
        return Bundle(
            host=node[1] if node else host,
            collected_at=rfc3339(self._date, self._stamps),
            root=True,  # the script does not run without
            sections=dict(self._sections()),
        )

    def _sections(self) -> Iterator[tuple[str, Collected]]:
        if self._uname:
            rc = 0 if self._past_uname else BROKEN_PIPE
            yield "uname", Collected(self._uname + "\n", rc=rc, root=True)
        for name in (
            "os-release",
            "proc-cmdline",
            "nvidia-version",
            "nvidia-params",
            "nvidia-smi-xml",
            "nvidia-smi-topo",
        ):
            if part := self._parts.get(name):
                yield (
                    name,
                    _collected(
                        part,
                        text=part.text(keeps_blank=name == "nvidia-smi-xml"),
                        is_complete_if_gone=name in _COMPLETE_IF_ABSENT,
                    ),
                )
        status, errors = (self._parts.get(f"nvidia-smi-nvlink{end}") for end in ("", " -e"))
        if status:
            yield "nvidia-smi-nvlink", _collected(status, before=errors)
        elif errors:  # the script asks for the status last
            yield "nvidia-smi-nvlink", _collected(errors, is_part=True)
        if modinfo := self._parts.get("nvidia-modinfo"):  # one line of many
            yield "nvidia-modinfo", _collected(modinfo, is_part=True)
        verbose, listed = self._parts.get("lspci"), self._parts.get("lspci -nn")
        if verbose and verbose.text().strip():
            yield "lspci", _collected(verbose, text=_HEX_DUMP.sub("", verbose.text()))
        elif listed := listed or verbose:
            tree = self._parts.get("lspci -t")  # a brief listing has no topology
            yield "lspci", _collected(listed, before=tree, is_part=True)
        elif cards := self._parts.get("lspci -d"):  # before 440: of NVIDIA's devices only
            yield "lspci", _collected(cards, text=_HEX_DUMP.sub("", cards.text()), is_part=True)
        yield from self._logs()

    def _logs(self) -> Iterator[tuple[str, Collected]]:
        dmesg = self._parts.get("dmesg")
        journals = bug_report_logs.without_repetition(list(map(self._text, _JOURNALS)))[::-1]
        files = map(bug_report_logs.boots_of, map(self._text, _FILES))
        boots: list[list[str]] = next(filter(None, files), [])
        if not any(journals):
            journals = [bug_report_logs.last_boot_in(boots, self._text("dmesg"))]
        if dmesg or boots or "journal 0" in self._parts:
            text, is_complete = bug_report_logs.of_this_boot(
                self._text("dmesg"),
                journals[-1],
                is_ring_complete=dmesg is not None and not dmesg.is_incomplete,
            )
            yield "kernel-log", Collected(text, rc=0 if is_complete else BROKEN_PIPE, root=True)
        previous = journals[-2] if len(journals) > 1 else ""
        if "journal 1" in self._parts:  # only the lines of the driver
            yield "kernel-log-previous", Collected(previous, rc=BROKEN_PIPE, root=True)
        if older := bug_report_logs.of_older_boots(boots, journals):
            yield "xid-history", Collected(older, rc=BROKEN_PIPE, root=True)

    def _text(self, name: str) -> str:
        part = self._parts.get(name)
        return part.text() if part else ""


def _part_of(line: bytes) -> str | None:
    path = line.removesuffix(_GONE).removesuffix(_LOCKED)
    return next((name for name, shape in _PARTS if shape.fullmatch(path)), None)


def _collected(
    part: _Part,
    *,
    text: str | None = None,
    before: _Part | None = None,
    is_part: bool = False,
    is_complete_if_gone: bool = False,
) -> Collected:
    """`before`: an earlier part that belongs to the same section."""
    own = part.text() if text is None else text
    whole = before.text() + own if before else own
    if not whole.strip():
        return Collected("", rc=0 if part.is_gone and is_complete_if_gone else 1, root=True)
    is_incomplete = (
        part.is_incomplete
        or is_part
        or not own.strip()
        or (before is not None and before.is_incomplete)
    )
    return Collected(whole, rc=BROKEN_PIPE if is_incomplete else 0, root=True)


def rfc3339(date: str, stamps: Iterable[str]) -> str | None:
    """The date at the top, in whatever locale and time zone the host has.

    `stamps` are lines of `ls --full-time`: one of that day has the zone in numbers.
    """
    local = _local(date)
    if local is None:
        return None
    zone = _zone(date)
    if zone is None:
        day, found = f"{local:%Y-%m-%d}", map(_FULL_TIME.search, stamps)
        zone = next((_offset(one[2], one[3]) for one in found if one and one[1] == day), None)
    return None if zone is None else (local - zone).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(date: str) -> datetime | None:
    clock, year = _CLOCK.search(date), _YEAR.search(date)
    month = next(
        (
            MONTHS.index(word[:3].lower()) + 1
            for word in _LETTERS.findall(date)
            if word[:3].lower() in MONTHS
        ),
        None,
    )
    if not clock or not year or not month:
        return None
    rest = date[: clock.start()] + " " + date[clock.end() :]
    day = _DAY.search(_ZONE.sub(" ", _YEAR.sub(" ", rest)))
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + (12 if clock[4] in "Pp" else 0)
    try:
        return datetime(  # noqa: DTZ001 - the zone comes later
            int(year[1]), month, int(day[1]) if day else 0, hour, int(clock[2]), int(clock[3])
        )
    except ValueError:
        return None


def _zone(date: str) -> timedelta | None:
    if _UTC.search(date):
        return timedelta()
    found = _ZONE.search(date)
    return _offset(found[1], found[2] or "0") if found else None


def _offset(hours: str, minutes: str) -> timedelta:
    sign = -1 if hours.startswith("-") else 1
    return timedelta(hours=int(hours), minutes=sign * int(minutes))
