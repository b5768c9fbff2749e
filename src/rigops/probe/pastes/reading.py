"""A copied text into the sections of a bundle.

An output that was copied may have been cut: only one that shows its own end is complete.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.bundle import BROKEN_PIPE, MOST_LINES, Bundle, Collected, Paste
from rigops.probe.kernel_log import stamps
from rigops.probe.pastes import journal
from rigops.probe.pastes.copying import (
    decoded,
    goes_on,
    is_no_output,
    is_pagers,
    is_rule_of_table,
    leaves_out,
    parts_outputs,
    plain_lines,
    typed_command,
    undressed,
)
from rigops.probe.pastes.kinds import (
    COMMAND_LINE,
    FAILURE,
    JOURNAL,
    LIST,
    LOG,
    LSPCI,
    MATRIX,
    NCCL_LOG,
    NVBANDWIDTH_JSON,
    NVLINK,
    PIECE,
    PYTORCH,
    QUERY,
    ROWS,
    SMI,
    TABLE,
    UNAME,
    XML,
    Kind,
    Pattern,
    begun_by,
    is_certain,
    is_log_line,
)
from rigops.probe.sections import nvidia_smi_xml
from rigops.probe.sections.pasted import SECTION as PASTED

_LETTERS: Final = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics"}
_LETTER: Final = re.compile(r"topo\b.*?\s(?:-p2p|--p2pstatus)[ =]([rwna])\b(?![|/])")
_BOOT_BEFORE: Final = re.compile(r"journalctl\b.*?\s(?:-b|--boot)[ =]?-[1-9]")
_ROW: Final = re.compile(r"\s*GPU[0-9]{1,3}\s+(?=\S)(?!GPU)(.*)")
_GRANTS: Final = frozenset({"OK", "CNS", "TNS", "GNS", "NS", "DR", "U"})
_ONLY_OF_COPIES: Final = frozenset({"CNS", "TNS", "GNS"})  # not of NVLink
_RICHEST: Final = (PIECE, PYTORCH, LIST, ROWS, TABLE, QUERY, XML)
_BROKEN: Final = frozenset({LOG.section, LSPCI.section, COMMAND_LINE.section})  # by mails
_LONGEST: Final = 1000  # of a line that was broken
_MOST_MARKED: Final = 20_000  # lines: no prose is longer
_LINES_BEFORE: Final = 20  # that are no wider, where one was broken
_PREVIOUS: Final = "kernel-log-previous"
_LOGS: Final = frozenset({LOG.section, _PREVIOUS})  # nobody sees them without the right to
_LOST: Final = re.compile(
    r"GPU is lost.{0,400}?[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
)
_TROUBLES: Final = ("ERR!", "Unknown Error", "is lost", "requires reset")
_MOST_HOSTS: Final = 24  # prompts of more are no prompts
_NOTHING: Final = Paste()
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12}")
_FRAME: Final = ("+", "\u00b1")  # the second by web pages
_CERTAIN: Final = {XML: ("<",), JOURNAL: ('"', "{", "}")}


@dataclass
class Part:
    """Lines of one output. `command` was typed before it."""

    kind: Kind
    first: int
    margin: str = ""
    command: str = ""
    host: str | None = None  # of the last prompt before it that names one
    lines: list[str] = field(default_factory=list)
    is_last: bool = False  # the text ends in its last line
    has_gap: bool = False  # lines were left out
    broken: int = 0  # lines that are joined to those before
    is_dressed: bool = False  # marks of Markdown or of prose were around its first line

    @property
    def last(self) -> int:
        return self.first + len(self.lines) + self.broken - 1

    def inner(self, line: str) -> str:
        return line.removeprefix(self.margin)


def read(files: Iterable[tuple[str, bytes]], *, host: str) -> Bundle:
    """Several files are of one machine."""
    parts: list[tuple[str, Part]] = []
    lines: list[str] = []
    others = 0
    hosts: dict[str, None] = {}
    left_out = 0
    for name, content in files:
        splitter = _split(decoded(content))
        parts += [(name, part) for part in splitter.parts]
        others += splitter.others
        hosts |= splitter.hosts
        left_out += splitter.left_out
        lines += splitter.lines()
    return _bundle(parts, lines, host, Paste({}, others, tuple(hosts), left_out))


def read_apart(
    content: bytes, *, host: str, is_known: Callable[[Bundle], bool] = lambda _: False
) -> list[Bundle]:
    """One for each host whose prompt is before an output; for those before any, one of `host`.

    `is_known`: whether its lines say anything where no output follows its prompt. Where that is one
    host, or more than anybody would copy into one text, it is of one machine.
    """
    splitter = _split(decoded(content))
    by_host: dict[str | None, list[tuple[str, Part]]] = {one: [] for one in splitter.by_host}
    for part in splitter.parts:
        by_host[part.host].append(("", part))

    def apart(name: str | None, paste: Paste = _NOTHING) -> Bundle:
        return _bundle(by_host[name], splitter.by_host[name], name or host, paste)

    names = [
        name
        for name, parts in by_host.items()
        if parts or (len(by_host) <= _MOST_HOSTS and is_known(apart(name)))
    ]
    rest = Paste({}, splitter.others, (), splitter.left_out)
    if not 1 < len(set(names) - {None}) <= _MOST_HOSTS:
        parts = [("", part) for part in splitter.parts]
        hosts = tuple(splitter.hosts)[: _MOST_HOSTS + 1] if len(names) > _MOST_HOSTS else ()
        return [_bundle(parts, splitter.lines(), host, replace(rest, hosts=hosts))]
    return [apart(name, _NOTHING if at else rest) for at, name in enumerate(names)]


def _bundle(
    parts: Sequence[tuple[str, Part]], lines: Sequence[str], host: str, paste: Paste
) -> Bundle:
    sections, recognized = _sections(parts)
    return Bundle(
        host=host,
        collected_at=None,
        root=False,
        sections={**sections, PASTED.name: Collected("\n".join(lines))},
        paste=replace(paste, recognized=recognized, cut=tuple(_cut(parts))),
    )


def _split(text: str) -> _Splitter:
    lines = plain_lines(text)
    splitter = _Splitter(left_out=max(len(lines) - MOST_LINES, 0))
    lines = lines[splitter.left_out :]
    for number, line in enumerate(lines, splitter.left_out + 1):
        splitter.take(number, line)
    splitter.close(is_end=bool(lines) and lines[-1].strip() != "")
    splitter.parts.sort(key=lambda part: part.first)  # NCCL's lines are among those of others
    return splitter


class _Splitter:
    def __init__(self, left_out: int) -> None:
        self.left_out = left_out  # lines: what happened last is at the end
        self.parts: list[Part] = []
        self.others = 0  # lines of no output
        self.hosts: dict[str, None] = {}  # that prompts name
        self.by_host: dict[str | None, list[str]] = defaultdict(list)  # all lines
        self._current: Part | None = None
        self._command = ""
        self._marked = 0  # lines with marks around them or within them
        self._host: str | None = None
        self._nccl: Part | None = None  # its lines come between those of other outputs

    def lines(self) -> list[str]:
        return [line for lines in self.by_host.values() for line in lines]

    def take(self, number: int, line: str) -> None:
        self.by_host[self._host].append(line)
        if not line or line.isspace():
            self._take_blank()
        elif (self._is_certain(line) and self._continues(line)) or is_pagers(line):
            return
        elif parts_outputs(line):
            self.close()
            self._take_dressed(number, line)
        elif leaves_out(line):
            self._leave_out()
        elif (typed := typed_command(line)) is not None:
            self.close()
            self._command, self._nccl = typed.command, None
            # The prompt of a container has its number: it is on the host that was named before.
            if typed.host and not (self._host and _CONTAINER_ID.fullmatch(typed.host)):
                self.hosts[typed.host], self._host = None, typed.host
        elif "NCCL" in line and NCCL_LOG.begins.match(line):
            self._take_nccl(number, line)
        elif not self._continues(line):
            self._begin(number, line)

    def close(self, *, is_end: bool = False) -> None:
        current, self._current = self._current, None
        if current is None:
            return
        while current.lines and not current.lines[-1].strip():
            current.lines.pop()
        kind = current.kind
        if kind is NVLINK and not _any(NVLINK.has, current.lines):
            kind = LIST
        if kind is JOURNAL and _any(NVBANDWIDTH_JSON.has, current.lines):
            kind = NVBANDWIDTH_JSON
        if kind.has is not None and not _any(kind.has, current.lines):
            self.others += len(current.lines)
            return
        current.kind, current.is_last = kind, is_end
        self.parts.append(current)

    def _take_blank(self) -> None:
        if self._current and self._current.kind.own:
            self._current.lines.append("")
        else:
            self.close()

    def _is_certain(self, line: str) -> bool:
        """Of what is open, even if it looks like something else. The most lines of long pastes."""
        current = self._current
        if current is None:
            return False
        if current.kind is LOG:
            return "NCCL" not in line and stamps.read(line).form is not None
        return line.lstrip().startswith(_CERTAIN.get(current.kind, ()))

    def _leave_out(self) -> None:
        if self._current:
            self._current.lines.append("")
            self._current.has_gap = True

    def _take_nccl(self, number: int, line: str) -> None:
        if self._nccl is None:
            self._nccl = Part(NCCL_LOG, number, host=self._host)
            self.parts.append(self._nccl)
        self._nccl.lines.append(line)

    def _continues(self, line: str) -> bool:
        current = self._current
        if current is None:
            return False
        inner = current.inner(line)
        if current.kind.own is None:
            return False
        if current.kind is LOG and is_log_line(line):
            current.lines.append(line)
            return True
        if current.kind is not LOG and current.kind.own.match(inner):
            current.lines.append(inner)
            if current.kind.ends and current.kind.ends.match(inner):
                self.close()
            return True
        if current.kind.may.match(inner) and not self._is_other(line):
            current.lines.append(inner)
            return True
        return False

    def _is_other(self, line: str) -> bool:
        """Package names look like lines of a log that lost its time stamps."""
        found = begun_by(line)
        return found is not None and (found[0] is not LOG or stamps.read(line).form is not None)

    def _begin(self, number: int, line: str) -> None:
        found = begun_by(line)
        if found is None and "cat /proc/cmdline" in self._command:
            found = COMMAND_LINE, ""
        if found is None and "uname -r" in self._command and UNAME.begins.match(line):
            found = UNAME, ""
        if found is None and (self._join(line) or self._take_dressed(number, line)):
            return
        self.close()
        if found:
            self._open(number, line, *found)
        elif not is_no_output(line):
            self.others += 1
            if "-p2p" in line and len(set(_LETTER.findall(line))) == 1:
                self._command = line  # that prose names

    def _open(
        self, number: int, line: str, kind: Kind, margin: str, *, is_dressed: bool = False
    ) -> None:
        lines = [line.removeprefix(margin)]
        self._current = Part(
            kind, number, margin, self._command, self._host, lines, is_dressed=is_dressed
        )
        self._command = "" if kind in {COMMAND_LINE, UNAME} else self._command

    def _join(self, line: str) -> bool:
        """The rest of a long line that was broken, to its beginning."""
        current, before = self._current, self.by_host[self._host][-_LINES_BEFORE - 1 : -1]
        if not (current and current.kind.section in _BROKEN and current.lines[-1]):
            return False
        if len(current.lines[-1]) > _LONGEST or not goes_on(before, line):
            return False
        current.lines[-1] = f"{current.lines[-1].rstrip()} {line.strip()}"
        current.broken += 1
        return True

    def _take_dressed(self, number: int, line: str) -> bool:
        """A line with marks around it; or within prose, where each output is one of its own."""
        if self._marked == _MOST_MARKED:
            return False
        whole, spans = undressed(line)
        self._marked += bool(whole or spans)
        current = self._current
        is_row = whole and current and current.is_dressed
        if is_row and (is_rule_of_table(line) or self._continues(whole)):
            return True
        if found := self._certain_kind(whole):
            self.close()
            self._open(number, whole, *found, is_dressed=True)
            return True
        in_prose = [(one, found) for one in spans if (found := self._certain_kind(one))]
        for span, found in in_prose:
            self.close()
            self._open(number, span, *found)
        if in_prose:
            self.close()
        return bool(in_prose)

    def _certain_kind(self, line: str) -> tuple[Kind, str] | None:
        found = begun_by(line)
        return found if found and is_certain(found[0], line.removeprefix(found[1])) else None


def _any(pattern: Pattern | None, lines: Iterable[str]) -> bool:
    return pattern is not None and any(map(pattern.match, lines))


def _sections(
    parts: Sequence[tuple[str, Part]],
) -> tuple[Mapping[str, Collected], Mapping[str, tuple[str, ...]]]:
    by_section: dict[str, list[Part]] = defaultdict(list)
    recognized: dict[str, tuple[str, ...]] = defaultdict(tuple)
    several_files = len({name for name, _ in parts}) > 1
    for name, part in parts:
        section, said = _section_of(part)
        place = f"{name} " if several_files else ""
        lines = f"line {part.first}" + (f" to {part.last}" if part.last > part.first else "")
        recognized[part.kind.name] += (f"{place}{lines}{said}",)
        if section:
            by_section[section].append(part)
    collected = {name: _collected(name, found) for name, found in by_section.items()}
    return collected, dict(recognized)


def _cut(parts: Sequence[tuple[str, Part]]) -> Iterable[str]:
    """Outputs that name cards and of which the last ones may be missing."""
    answers = [part for _, part in parts if part.kind.section == SMI and part.kind is not FAILURE]
    lists = [part for _, part in parts if part.kind is MATRIX]
    cut = [part for part in lists if not _is_complete(part)]
    if all(map(_lacks_cards, answers)):
        cut += answers
    return dict.fromkeys(part.kind.name for part in cut)


def _lacks_cards(part: Part) -> bool:
    if part.kind is TABLE:
        text = "\n".join(part.lines)
        has_head = any(words in text for words in ("NVIDIA-SMI ", "Bus-Id"))
        return not (has_head and (part.lines[-1][:1] in _FRAME or "Processes" in text))
    if part.kind is QUERY:
        report = nvidia_smi_xml.parse("\n".join(part.lines))
        return (report.attached or 0) > len(report.gpus)
    return part.kind is XML and not _is_complete(part)


def _section_of(part: Part) -> tuple[str, str]:
    """Its section, none where that cannot be known; and what to say about it."""
    if part.kind.section == LOG.section and _BOOT_BEFORE.search(part.command):
        return _PREVIOUS, ""
    if part.kind is not MATRIX:
        return part.kind.section, ""
    cells = {cell for line in part.lines if (row := _ROW.match(line)) for cell in row[1].split()}
    if not cells & _GRANTS:
        return part.kind.section, ""
    letter = _LETTER.search(part.command)
    if letter:
        return f"nvidia-smi-p2p-{_LETTERS[letter[1]]}", ""
    if cells & _ONLY_OF_COPIES:
        return "nvidia-smi-p2p-read", ""
    return "", "; of reads, writes or NVLink? Give the command above it too"


def _collected(section: str, parts: Sequence[Part]) -> Collected:
    if section == SMI:
        return _of_smi(parts)
    kind = parts[-1].kind
    if not kind.is_joined:
        parts = parts[-1:]
    elif section == "lspci":  # of one device the richest description counts, which is the last
        parts = sorted(parts, key=lambda part: len(part.lines))
    elif section == LOG.section and any(map(_has_several_boots, parts)):
        parts = sorted(parts, key=_is_ring)  # whose boot is the last one, wherever it was copied to
    head = [f"== {kind.head}"] if kind.head else []
    lines = [*head, *(line for part in parts for line in _lines(part))]
    is_complete = len(parts) == 1 and _is_complete(parts[0])
    return Collected(
        _text(lines, parts), rc=0 if is_complete else BROKEN_PIPE, root=section in _LOGS
    )


def _has_several_boots(part: Part) -> bool:
    return sum("Linux version " in line for line in part.lines) > 1


def _is_ring(part: Part) -> bool:
    """As dmesg prints it, by the time since the boot."""
    forms = (stamps.read(line).form for line in part.lines)
    return next(filter(None, forms), "") in {"up", "human", "delta", "minute", "apart", "kmsg"}


def _of_smi(parts: Sequence[Part]) -> Collected:
    """The failures, cards that any answer calls lost, and the richest of the good answers."""
    failures = [part for part in parts if part.kind is FAILURE]
    answers = [part for part in parts if part.kind is not FAILURE]
    best = max(
        answers,
        key=lambda part: (
            len(answers) > 1 and _has_dead_card(part),
            _RICHEST.index(part.kind),
            part.first,
        ),
        default=None,
    )
    lines = [line for part in failures for line in part.lines]
    if best is None:
        return Collected(_text(lines, failures))
    lines += [
        line for part in answers if part is not best for line in part.lines if _LOST.search(line)
    ]
    text = _text([*lines, *best.lines], [best])
    return Collected(
        text, rc=0 if nvidia_smi_xml.parse(text).is_complete and not best.has_gap else BROKEN_PIPE
    )


def _has_dead_card(part: Part) -> bool:
    """One value that cannot be read is not enough: some drivers fail to read a setting."""
    text = "\n".join(part.lines)
    is_odd = any(words in text for words in _TROUBLES)
    return is_odd and any(len(gpu.troubles) > 1 for gpu in nvidia_smi_xml.parse(text).gpus)


def _lines(part: Part) -> list[str]:
    return journal.log_lines(part.lines) if part.kind is JOURNAL else part.lines


def _text(lines: Iterable[str], parts: Sequence[Part]) -> str:
    """Without the end of its last line where that may go on."""
    whole = "\n".join(lines)
    return whole if parts and parts[-1].is_last and not _is_complete(parts[-1]) else f"{whole}\n"


def _is_complete(part: Part) -> bool:
    if part.has_gap:
        return False
    if part.kind is MATRIX:
        rows = [line for line in part.lines[1:] if _ROW.match(line)]  # after the head
        columns = part.lines[0].split("CPU", 1)[0].split()
        return len(rows) == len([one for one in columns if one.startswith("GPU")])
    return (
        part.kind.ends is not None
        and bool(part.lines)
        and bool(part.kind.ends.match(part.lines[-1]))
    )
