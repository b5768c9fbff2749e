"""Additions of copying to an output: quote marks, fences of Markdown, colors, typed commands."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Final

from rigops.dataclass import dataclass

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}\x07|[@-Z\\-_])")
_HALF_AN_ESCAPE: Final = re.compile(r"\[[0-9]{1,3}(?:;[0-9]{1,3}){0,6}m(?=\S|$)", re.MULTILINE)
_ENTITY: Final = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{2,4}|#x[0-9A-Fa-f]{2,4});")
_IS_XML: Final = "<nvidia_smi_log"  # whose own entities are not those of a web page
_TAG: Final = re.compile(
    r"</?(?:details|summary|pre|code|p|br|b|strong|em|span|li|t[dr]|div|blockquote)\b[^>]{0,200}>"
)
_END_OF_TAGS: Final = re.compile(rf"(?<=[^\s>])(?:{_TAG.pattern})+$", re.MULTILINE)
# Web pages set blanks and quote marks of their own, and forums set type: +- and -- become signs.
_TYPOGRAPHY: Final = str.maketrans({
    "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": "", "\u2060": "", "\ufeff": "",
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00b1": "+-",
    "\u2013": "--", "\u2014": "---", "\u2026": "...",
})  # fmt: skip
_QUOTED: Final = re.compile(
    r"\+?(?:[>\u2502\u2503](?! ?(?:Peer access|GPU[0-9]{1,3} = )) ?){1,9}"  # simpleP2P's own lines
)
_QUOTES: Final = frozenset(">+")
_PANE: Final = "\u2502\u2503"  # of tmux and screen

# Marks of Markdown and of prose around an output.
_MARKS_BEFORE: Final = (*"-+#|\u20220123456789", "//")
_HAS_MARKS: Final = re.compile(  # a search skips to letters, and over a class it does not
    r"`|\*|_|\"|'|<|:[0-9a-f]{2}\.[0-7] |NVRM: |UUID: |\.[0-9]{6}\] |Verification error"
)
_DRESS_BEFORE: Final = re.compile(
    r"(?:[ \t]{0,3}(?:[-*+\u2022]|[0-9]{1,6}[.):|]?|#{1,6}|/{2})[ \t]){0,3}"
    r"(?:[ \t]{0,3}[*_\"'`]{1,6})?"
)
_DRESS_AFTER: Final = re.compile(r"[\"'`*_]{1,6}[.,;:!?)]{0,3}$")
_OF_A_RULE: Final = frozenset("|:- \t")
_MARKS_OF_CELLS: Final = " \t*_`"
_SPAN: Final = re.compile(
    r"(?<!`)`{1,2}(?P<ticks>[^`]{8,400})`|\*\*(?P<bold>[^*]{8,400})\*\*|\"(?P<quoted>[^\"]{8,400})\""
)
_AFTER_WORDS: Final = re.compile(
    r"(?<![\w:.])(?:"
    r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] "
    r"(?:VGA compatible controller|3D controller|Display controller|PCI bridge)\b.{0,12}:|"
    r"NVRM: (?:Xid \(|GPU [0-9a-f]{4}:)|\[ {0,8}[0-9]{1,8}\.[0-9]{6}\] |"
    r"GPU [0-9]{1,3}: [^(]{1,80}\(UUID: |Verification error @ element)"
)
_COLUMNS: Final = 80
_ENDS: Final = (".", "!", "?", ":")  # of a sentence
_SLACK: Final = 8  # a mail is wrapped at 72
_SEPARATOR: Final = re.compile(
    r"\s*(?:`{3,}.{0,40}|~{3,}.{0,40}|</?(?:details|summary|pre|code|p|br|div|blockquote)\b[^>]{0,200}>.*|"
    r"\[/?(?:code|quote|spoiler)[^\]]{0,80}\]|\{(?:code|noformat|quote)[^}]{0,80}\}|"
    r"\.\. code(?:-block)?::.{0,40}|[-=_*]{4,}|:?\.{3}skipping\.{3})\s*"
)
_PAGER: Final = re.compile(
    r"lines [0-9]{1,9}-[0-9]{1,9}(?:/[0-9]{1,9})?(?: \(END\)| [0-9]{1,3}%)?|~|:|\(END\)|"
    r"--More--(?:\([0-9]{1,3}%\))?|[\u2500-\u257f]{4,}"
)
_LEFT_OUT: Final = re.compile(
    r"\s*(?:[\[(<]?(?:\.{2,6}|snip(?:ped)?|cut|truncated|omitted)[\])>]?|--)\s*",  # of `grep -A`
    re.IGNORECASE,
)
_AROUND: Final = re.compile(
    r"PS [A-Z]:\\.{0,200}>|[\u276f\u279c\u00bb\u03bb$#%>]{1,3}(?: *~)?|\^C|"
    r"\[sudo\] .{0,200}|[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} .{0,20}"
)

# Prefixes of lines in the logs of GitHub's and Azure's builds.
_BUILD_STAMP: Final = re.compile(
    r"\n\ufeff?[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{7}Z "
)

# Prefixes of docker compose, kubectl, Ray and mpirun before each line of a container or a rank.
_CONTAINER: Final = re.compile(
    r"[ \t]{0,16}\[[0-9]{1,4},[0-9]{1,6}\]<std(?:out|err)>:|"
    r"\[(?:pod|container)/[^\]\s]{1,200}\] |[\w.-]{1,60} {1,40}\| |\(\w{1,40} pid=[^)]{1,80}\) "
)

# Numbers of `cat -n` and of paste sites, one a line.
_NUMBER: Final = re.compile(
    r"\n[ \t]{0,8}(?P<number>[0-9]{1,6})(?::| ?\|)?(?:[ \t](?P<rest>.*)|$)", re.MULTILINE
)
_WORD: Final = re.compile(r"[A-Za-z]{4}")
_FEWEST: Final = 3  # numbered lines

# Prefixes of grep, lists and syslogd's messages to terminals before a line of a log.
_BEFORE_A_LOG_LINE: Final = re.compile(
    r"\n(?:/[\w./-]{1,200}:)?(?:[ \t]{0,8}[0-9]{1,9}(?:[:-]|[ \t]{1,4})|[*|+-] | ?kernel: ?)?"
    r"(?=\[ {0,8}[0-9]{1,9}\.[0-9]{3,6}\] |[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} \S|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\S{0,20} \S|"
    r"NVRM: |pcieport [0-9a-f]{4}:)"
)

_PROGRAMS: Final = (
    r"(?:\S{0,80}/)?(?:nvidia-smi|lspci|dmesg|journalctl|cat|dkms|uname|apt|apt-get|apt-mark|dpkg|"
    r"dpkg-query|mokutil|grep|p2pBandwidthLatencyTest|simpleP2P|nvbandwidth|gpu_burn|"
    r"\w{2,20}_perf|modinfo|lsmod|sh|bash|sudo|watch|rigops|python3?|torchrun|mpirun)"
)
_SUDO: Final = r"(?:sudo (?:-\S{1,20} )?)?(?:[A-Z_]{2,40}=\S{1,80} )*"
_MARK: Final = "$#%>\u276f\u279c\u00bb\u03bb"
_USER: Final = r"[\w.-]{1,64}[@\u327f]"
_DOMAIN: Final = r"(?:\.[\w.-]{1,200})?"
_FOLDER: Final = rf"(?::(?:[~/][^{_MARK}]{{0,200}})?| ?[~/][^\s{_MARK}]{{0,200}})?"
_PROMPT: Final = re.compile(
    r"(?:[$#] )?(?:\([^)\s]{1,40}\) ?)?"  # conda's
    rf"(?:\[{_USER}(?P<bracketed>[\w-]{{1,64}}){_DOMAIN}(?:[: ][^\]]{{0,120}})?\]|"
    rf"{_USER}(?P<host>[\w-]{{1,64}}){_DOMAIN}{_FOLDER}) ?[{_MARK}](?:\s+(?P<command>.*))?$"
)
_OF_TWO_LINES: Final = re.compile(rf"[\u250c\u256d]\u2500+ ?\(?{_USER}(?P<host>[\w-]{{1,64}}).*")
# Without a host, and so only before a program that is known.
_SIMPLE_PROMPT: Final = re.compile(
    rf"[^|{_MARK}]{{0,80}}[{_MARK}]{{1,3}}(?: {{1,3}}(?:~|[\w./-]{{1,80}})"
    rf"(?: git:\([^)\s]{{1,80}}\))?(?: \u2717)?)? {{0,3}}"
    rf"(?P<command>{_SUDO}{_PROGRAMS}(?:\.exe)?(?: .*)?)$"
)
_WATCH: Final = re.compile(
    r"[A-Z]\w{1,12}(?: \w{1,12})? [0-9]{1,4}[.,][0-9]s: (?P<command>\S{1,80}(?: \S{1,80}){0,20})"
    r"(?: {2,}(?P<host>[\w-]{1,64})?.*)?$"
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
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    elif "[4m" in text or "[0m" in text:  # a web page has swallowed the escape itself
        text = _HALF_AN_ESCAPE.sub("", text)
    if "&" in text and _IS_XML not in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    if "</" in text and _IS_XML not in text:
        text = _END_OF_TAGS.sub("", text)
    if not text.isascii():
        text = text.translate(_TYPOGRAPHY)
    for line_end in ("\r\r\n", "\r\n", "\r"):
        text = text.replace(line_end, "\n")
    text = f"\n{text}"  # before each line, since a search for one character skips to it
    text = _BEFORE_A_LOG_LINE.sub("\n", _unnumbered(_BUILD_STAMP.sub("\n", text)))
    lines = text[1:].split("\n")
    if text.isascii() and not any(f"\n{mark}" in text for mark in _QUOTES):
        return lines
    return [
        _unquoted(line) if (line and not line.isascii()) or line[:1] in _QUOTES else line
        for line in lines
    ]


def _unnumbered(text: str) -> str:
    """Where lines that follow each other count on. Rows of a matrix do too, and have no words."""
    pieces: list[str] = []
    at = 0
    for run in _numbered(text):
        first = int(run[0]["number"])
        counts_on = all(int(one["number"]) == number for number, one in enumerate(run, first))
        if (
            len(run) >= _FEWEST
            and counts_on
            and any(_WORD.search(one["rest"] or "") for one in run)
        ):
            pieces += [text[at : run[0].start()], *(f"\n{one['rest'] or ''}" for one in run)]
            at = run[-1].end()
    return "".join([*pieces, text[at:]])


def _numbered(text: str) -> Iterator[list[re.Match[str]]]:
    """Lines that begin with a number, and follow each other."""
    run: list[re.Match[str]] = []
    for found in _NUMBER.finditer(text):
        if run and found.start() != run[-1].end():
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def _unquoted(line: str) -> str:
    quoted = _QUOTED.match(line)
    line = line[quoted.end() :] if quoted else line
    return line[:-1].rstrip() if line.endswith(tuple(_PANE)) else line


def undressed(line: str) -> tuple[str, list[str]]:
    """The line without what is around it: marks of Markdown, quotation, words before an output.

    Empty where nothing is; and each text in back-ticks or quote marks within it.
    """
    if not (line.lstrip().startswith(_MARKS_BEFORE) or _HAS_MARKS.search(line)):
        return "", []
    *spans, plain = [one.strip() for one in _TAG.split(line) if one.strip()] or [""]
    if plain[:1] == plain[-1:] == "|":
        cells = (cell.strip(_MARKS_OF_CELLS) for cell in plain.strip("|").split("|"))
        whole = "  ".join(cells)
    else:
        whole = _DRESS_BEFORE.sub("", plain, count=1)
        if whole != plain:
            whole = _DRESS_AFTER.sub("", whole)
    found = list(_SPAN.finditer(plain))
    output = _AFTER_WORDS.search(whole)
    if output and not any(output[0] in one[0] for one in found):
        whole = whole[output.start() :]
    spans += [one["ticks"] or one["bold"] or one["quoted"] for one in found]
    return whole if whole != line.strip() else "", [one.strip() for one in spans]


def is_rule_of_table(line: str) -> bool:
    return "-" in line and "|" in line and set(line) <= _OF_A_RULE


def goes_on(before: Sequence[str], line: str) -> bool:
    """Whether a mail program or a narrow terminal broke the last line before this one."""
    if any(len(one) > _COLUMNS for one in before):
        return False
    end, word = before[-1], line.split(None, 1)[0]
    return len(end) + 1 + len(word) + _SLACK > _COLUMNS and not end.endswith(_ENDS)


def is_pagers(line: str) -> bool:
    """Lines of a pager or the frame of a terminal between those of one output."""
    return _PAGER.fullmatch(line.strip()) is not None


def margin_of(line: str) -> str:
    """A prefix of each line of an output: blanks, or the name of a container."""
    container = _CONTAINER.match(line)
    return container[0] if container else line[: len(line) - len(line.lstrip(" \t"))]


def parts_outputs(line: str) -> bool:
    return _SEPARATOR.fullmatch(line) is not None


def is_no_output(line: str) -> bool:
    return not line.strip() or _AROUND.fullmatch(line.strip()) is not None


def leaves_out(line: str) -> bool:
    """The mark of lines that were left out."""
    return _LEFT_OUT.fullmatch(line) is not None


@dataclass(frozen=True)
class Typed:
    command: str  # empty for a prompt alone
    host: str | None = None  # whose prompt


def typed_command(line: str) -> Typed | None:
    line = line.strip()
    if typed := _PROMPT.match(line):
        return Typed((typed["command"] or "").strip(), typed["bracketed"] or typed["host"])
    if beginning := _OF_TWO_LINES.fullmatch(line):
        return Typed("", beginning["host"])
    typed = _SIMPLE_PROMPT.match(line) or _WATCH.match(line) or _BARE.match(line)
    return Typed(typed["command"].strip()) if typed else None
