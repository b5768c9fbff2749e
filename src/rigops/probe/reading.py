"""The script's output into a bundle. Binary rubbish, a cut end and a chatty login are expected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.probe.bundle import Bundle, Collected
from rigops.probe.script import FORMAT, MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER: Final = re.compile(
    rb"^" + re.escape(FORMAT.encode()) + rb" (?P<mark>[0-9A-Za-z-]+) root=(?P<root>[01])"
    rb" at=(?P<at>\S*) host=(?P<host>[^\r\n]*)\r?\n",
    re.MULTILINE,
)
_ENDED: Final = re.compile(rb"rc=(?P<rc>\d+) from=(?P<start>[\d.]*) to=(?P<end>[\d.]*)\r?\n")
_TIMED_OUT: Final = 124
_CUT_OFF: Final = 141  # what a shell says of a program whose reader has gone
_BY_SIGNAL: Final = (_TIMED_OUT, 137, 143)
_CLOCK_TICK_S: Final = 0.1


def is_whole(output: bytes) -> bool:
    header = _HEADER.search(output)
    return header is not None and b"\n" + header["mark"] + b" done" in output[header.end() - 1 :]


def read(
    output: bytes, *, host: str | None = None, collected_at: str | None = None
) -> Bundle | None:
    """None where no probe has spoken. A section that was cut off is not whole."""
    header = _HEADER.search(output)
    if header is None:
        return None
    return Bundle(
        host=host or header["host"].decode("utf-8", "replace"),
        collected_at=collected_at or header["at"].decode("ascii", "replace") or None,
        root=header["root"] == b"1",
        sections=dict(_sections(output[header.end() :], header["mark"])),
    )


def _sections(rest: bytes, mark: bytes) -> Iterator[tuple[str, Collected]]:
    begin = re.compile(
        rb"^" + mark + rb" begin (?P<name>[\w-]+) root=(?P<root>[01]) limit=(?P<limit>\d+)\r?\n",
        re.MULTILINE,
    )
    for head in begin.finditer(rest):
        body = rest[head.end() :]
        end = body.find(b"\n" + mark + b" end ")
        answer = body if end < 0 else body[:end]
        yield head["name"].decode(), _collected(answer, mark, head, was_ended=end >= 0)


def _collected(answer: bytes, mark: bytes, head: re.Match[bytes], *, was_ended: bool) -> Collected:
    root = head["root"] == b"1"
    at = answer.rfind(b"\n" + mark + b" rc=")
    if at < 0 and answer.startswith(mark + b" rc="):
        at = 0
    ended = (
        _ENDED.fullmatch(answer[at:].lstrip(b"\n").removeprefix(mark + b" ")) if at >= 0 else None
    )
    if ended is None:
        cut = was_ended and len(answer) >= MOST_BYTES
        return Collected(
            text=_text(answer),
            rc=_CUT_OFF if cut or not was_ended else _TIMED_OUT,
            root=root,
            timed_out=was_ended and not cut,
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
