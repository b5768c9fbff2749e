"""What copying adds to an output: quote marks, fences of Markdown, colors, typed commands."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}\x07|[@-Z\\-_])")
_LINE_END: Final = re.compile(r"\r{0,3}\n|\r")
_QUOTED: Final = re.compile(r"(?:> ?){1,9}")
_SEPARATOR: Final = re.compile(
    r"\s*(?:`{3,}.{0,40}|~{3,}.{0,40}|</?(?:details|summary|pre|code|p|br|div|blockquote)\b[^>]{0,200}>.*|"
    r"\[/?(?:code|quote|spoiler)[^\]]{0,80}\]|[-=_*]{4,})\s*"
)
_LEFT_OUT: Final = re.compile(r"\s*(?:\[?(?:\.{2,6}|\u2026)\]?|<?snip(?:ped)?>?)\s*", re.IGNORECASE)
_AROUND: Final = re.compile(
    r"\[sudo\] .{0,200}|[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} .{0,20}"
)

_PROGRAMS: Final = (
    r"(?:\S{0,80}/)?(?:nvidia-smi|lspci|dmesg|journalctl|cat|dkms|uname|apt|apt-get|apt-mark|dpkg|"
    r"dpkg-query|mokutil|grep|p2pBandwidthLatencyTest|simpleP2P|nvbandwidth|gpu_burn|"
    r"\w{2,20}_perf|modinfo|lsmod|sh|bash|sudo|rigops|python3?|torchrun|mpirun)"
)
_SUDO: Final = r"(?:sudo (?:-\S{1,20} )?)?(?:[A-Z_]{2,40}=\S{1,80} )*"
_PROMPT: Final = re.compile(
    r"(?:[$#] )?(?:\([^)\s]{1,40}\) ?)?"
    r"(?:\[[^\]\s]{1,60}@[^\]]{1,120}\]|[\w.-]{1,64}@[\w.-]{1,255}:?[^$#%>\s]{0,200}"
    r"(?: [~/][^\s$#%]{0,200})?) ?[$#%>\u276f](?:\s+(?P<command>.*))?$"
)
_SIMPLE_PROMPT: Final = re.compile(
    rf"(?:[~/]\S{{0,120}} ?)?[$#%>\u276f\u279c]+ +(?P<command>{_SUDO}{_PROGRAMS}(?: .*)?)$"
)
_BARE: Final = re.compile(
    rf"(?:== )?(?P<command>{_SUDO}(?:\S{{0,80}}/)?(?:nvidia-smi(?: (?:-|topo|nvlink).*)?|"
    r"lspci(?: -.*)?|(?:dmesg|journalctl)(?: [-|].*)?|uname -\w+|cat /\S+|dkms status|"
    r"mokutil --sb-state|dpkg -l.*|\./\w\S*(?: .*)?))$"
)


def decoded(content: bytes) -> str:
    """PowerShell redirects into UTF-16."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


def plain_lines(text: str) -> list[str]:
    """Each as it was in the terminal. Progress that overwrote itself becomes lines."""
    return [_unquoted(line) for line in _LINE_END.split(_ESCAPES.sub("", text))]


def _unquoted(line: str) -> str:
    quoted = _QUOTED.match(line)
    return line[quoted.end() :] if quoted else line


def parts_outputs(line: str) -> bool:
    return _SEPARATOR.fullmatch(line) is not None


def is_no_output(line: str) -> bool:
    return not line.strip() or _AROUND.fullmatch(line.strip()) is not None


def leaves_out(line: str) -> bool:
    """The mark of lines that somebody left out."""
    return _LEFT_OUT.fullmatch(line) is not None


def typed_command(line: str) -> str | None:
    """What was typed at a prompt; empty for a prompt alone."""
    line = line.strip()
    typed = _PROMPT.match(line) or _SIMPLE_PROMPT.match(line) or _BARE.match(line)
    return (typed["command"] or "").strip() if typed else None
