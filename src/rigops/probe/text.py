"""Raw answers into lines and blocks, the way every parser wants them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from itertools import takewhile

from rigops.dataclass import dataclass

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_HEAD = "== "
_ESCAPED_HEAD = re.compile(r"\\+== ")
_GREP_HIT = re.compile(r"(?P<file>/[^:]*):(?P<number>[0-9]{1,7}):(?P<text>.*)")
_PROPERTY = re.compile(r"(?P<name>[A-Z][A-Za-z]{0,59})=(?P<value>.*)")
_TIME = re.compile(r"(?:[A-Z][a-z]{2} )?(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) UTC", re.ASCII)
_STAMP = re.compile(r"(?P<epoch>[0-9]{1,12}) (?P<path>/.*)")


@dataclass(frozen=True)
class GrepHit:
    """`FILE:NUMBER:TEXT`, as `grep -Hn` prints it."""

    file: str
    number: int
    text: str
    line: str  # as it was printed

    @property
    def is_comment(self) -> bool:
        return self.text.lstrip().startswith(("#", ";"))


@dataclass(frozen=True)
class Stamp:
    """`EPOCH PATH`: when a file was last written or changed, as `stat -c '%Y %n'` prints it."""

    path: str
    epoch: int  # seconds since 1970
    line: str


def lines(text: str) -> list[str]:
    """Without colors, carriage returns and what ends the last line."""
    plain = [line.rstrip("\r") for line in _ESCAPES.sub("", text).split("\n")]
    return plain[:-1] if plain[-1] == "" else plain


def stripped(text: str) -> list[str]:
    """The lines that are not blank, without the blanks around them."""
    return [line.strip() for line in lines(text) if line.strip()]


def matches(shape: re.Pattern[str], output: Iterable[str]) -> tuple[list[re.Match[str]], list[str]]:
    """The lines of this shape, and the others that are not blank."""
    shapes = [(line, shape.fullmatch(line)) for line in output]
    unparsed = [line for line, one in shapes if line.strip() and not one]
    return [one for _, one in shapes if one], unparsed


def shown_units(output: Iterable[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Output of `systemctl show`: the properties of each unit, and lines that are none."""
    found: list[dict[str, str]] = []
    unparsed: list[str] = []
    fields: dict[str, str] = {}
    for line in [*output, ""]:
        shape = _PROPERTY.fullmatch(line)
        begins_another = shape and shape["name"] == "Id" and "Id" in fields
        if fields and (begins_another or not line.strip()):
            if fields.get("Id"):
                found.append(fields)
            else:
                unparsed.append(f"a unit without Id: {', '.join(fields)}")
            fields = {}
        if shape:
            fields[shape["name"]] = shape["value"].strip()
        elif line.strip():
            unparsed.append(line)
    return found, unparsed


def shown_time(value: str) -> int | None:
    """Of a property of `TZ=UTC systemctl show`, in seconds since 1970."""
    shape = _TIME.fullmatch(value)
    if shape is None:
        return None
    try:
        when = datetime.strptime(shape[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(when.timestamp())


def single(text: str) -> list[str]:
    """The lines of a section with one command, which may be above them as `== COMMAND`."""
    found = lines(text)
    return found[1:] if found and found[0].startswith(_HEAD) else found


def blocks(text: str) -> dict[str, str]:
    """A compound section: what follows each `== PATH` or `== COMMAND`, exactly as it was.

    A line of content that looks like a head has a backslash before it in a bundle.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        if line.startswith(_HEAD):
            current = found.setdefault(line[len(_HEAD) :].strip(), [])
        elif current is not None:
            current.append(line[1:] if _ESCAPED_HEAD.match(line) else line)
    return {head: "\n".join(body) for head, body in found.items()}


def preamble(text: str) -> tuple[str, ...]:
    """Text before the first `== ` of a compound section, where none should be."""
    before = takewhile(lambda line: not line.startswith(_HEAD), lines(text))
    return tuple(line for line in before if line.strip())


def grep_hits(body: str) -> tuple[list[GrepHit], list[str]]:
    """And the lines that could not be parsed."""
    found, unparsed = matches(_GREP_HIT, lines(body))
    return [
        GrepHit(one["file"], int(one["number"]), one["text"].rstrip(), one.string) for one in found
    ], unparsed


def stamps(body: str) -> tuple[list[Stamp], list[str]]:
    """And the lines that could not be parsed."""
    found, unparsed = matches(_STAMP, stripped(body))
    return [Stamp(one["path"], int(one["epoch"]), one.string) for one in found], unparsed


def assignments(text: str) -> dict[str, str]:
    """NAME=VALUE lines as in os-release, with the quotes taken off."""
    found: dict[str, str] = {}
    for line in lines(text):
        name, equals, value = line.strip().partition("=")
        if equals and name and not name.startswith("#"):
            found[name] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    for quote in ('"', "'"):
        if len(value) > 1 and value.startswith(quote) and value.endswith(quote):
            return re.sub(r"\\(.)", r"\1", value[1:-1]) if quote == '"' else value[1:-1]
    return value
