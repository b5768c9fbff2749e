"""The script's output into a bundle. Binary data, a missing end and login messages are expected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rigops.probe.bundle import BROKEN_PIPE, Bundle, Collected
from rigops.probe.script import MOST_BYTES

# In version 1 the heads of blocks had no mark.
BEGINNING: Final = re.compile(rb"^rigops-probe/(?P<version>[12]) ", re.MULTILINE)

_HEADER: Final = re.compile(
    BEGINNING.pattern + rb"(?P<mark>[0-9A-Za-z-]+) root=(?P<root>[01])"
    rb" at=(?P<at>\S*) host=(?P<host>[^\r\n]*)\r?\n",
    re.MULTILINE,
)
_ENDED: Final = re.compile(
    rb"rc=(?P<rc>[0-9]{1,9}) from=(?P<start>[0-9.]{0,20}) to=(?P<end>[0-9.]{0,20})\r?\n"
)
_TIMED_OUT: Final = 124
_BY_SIGNAL: Final = (_TIMED_OUT, 137, 143)
_CLOCK_TICK_S: Final = 0.1
_NO_TIME: Final = Collected("", rc=_TIMED_OUT, timed_out=True)


def read(
    output: bytes, *, host: str | None = None, collected_at: str | None = None
) -> Bundle | None:
    """None: this is no output of the probe. A section without its end is incomplete."""
    header = _HEADER.search(output)
    if header is None:
        return None
    rest, mark = output[header.end() :], header["mark"]
    found = dict(_sections(rest, mark))
    if header["version"] != b"1":
        found = {
            name: replace(one, text=with_heads(one.text, mark.decode()))
            for name, one in found.items()
        }
    return Bundle(
        host=host or header["host"].decode("utf-8", "replace"),
        collected_at=collected_at or header["at"].decode("ascii", "replace") or None,
        root=header["root"] == b"1",
        sections={name: found.get(name, _NO_TIME) for name in (_asked(rest, mark) or found)},
    )


def with_heads(answer: str, mark: str) -> str:
    """The head of each block as a bundle has it; a line of content that looks like one, escaped."""
    escaped = re.sub(r"^(?=\\*== )", r"\\", answer, flags=re.MULTILINE)
    # The newline before a head ends the line before it, or is one too many.
    return re.sub(
        rf"(\A|\r?\n)?\r?\n{mark} == ",
        lambda head: ("\n" if head[1] is None else head[1]) + "== ",
        escaped,
    )


def _asked(rest: bytes, mark: bytes) -> list[str]:
    """In their order, where the probe reached its end: what is missing hangs."""
    line = re.search(rb"^" + mark + rb" asked(?P<names>[ \w-]*)\r?$", rest, re.MULTILINE)
    if line is None or b"\n" + mark + b" done" not in rest:
        return []
    return line["names"].decode("ascii", "replace").split()


def _sections(rest: bytes, mark: bytes) -> Iterator[tuple[str, Collected]]:
    begin = re.compile(
        rb"^"
        + mark
        + rb" begin (?P<name>[\w-]+) root=(?P<root>[01]) limit=(?P<limit>[0-9]{1,9})\r?\n",
        re.MULTILINE,
    )
    # A section's own end, or what came after it had been given up.
    over = re.compile(rb"^" + mark + rb" (?:end|begin|done)\b", re.MULTILINE)
    for head in begin.finditer(rest):
        end = over.search(rest, head.end())
        answer = rest[head.end() : max(end.start() - 1, head.end()) if end else len(rest)]
        yield head["name"].decode(), _collected(answer, mark, head, was_ended=end is not None)


def _collected(answer: bytes, mark: bytes, head: re.Match[bytes], *, was_ended: bool) -> Collected:
    root = head["root"] == b"1"
    at = answer.rfind(b"\n" + mark + b" rc=")
    if at < 0 and answer.startswith(mark + b" rc="):
        at = 0
    ended = (
        _ENDED.fullmatch(answer[at:].lstrip(b"\n").removeprefix(mark + b" ")) if at >= 0 else None
    )
    if ended is None:
        is_too_long = was_ended and len(answer) >= MOST_BYTES
        return Collected(
            text=_text(answer[:MOST_BYTES]),
            rc=BROKEN_PIPE if is_too_long or not was_ended else _TIMED_OUT,
            root=root,
            timed_out=was_ended and not is_too_long,
        )
    seconds = _seconds(ended)
    rc = int(ended["rc"])
    ran_out = rc in _BY_SIGNAL and (
        seconds is None or seconds >= int(head["limit"]) - _CLOCK_TICK_S
    )
    return Collected(
        text=_text(answer[:at]),
        rc=rc,
        ms=None if seconds is None else round(seconds * 1000),
        root=root,
        timed_out=ran_out,
    )


def _seconds(ended: re.Match[bytes]) -> float | None:
    try:
        return float(ended["end"]) - float(ended["start"])
    except ValueError:
        return None


def _text(answer: bytes) -> str:
    return answer.decode("utf-8", "replace")
