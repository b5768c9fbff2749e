"""Output of gpu_burn while it computes on every card, and its result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import stripped

_PROGRESS = re.compile(r"(?P<percent>[0-9]{1,3})(?:\.[0-9]{1,2})?% +proc'd: ")
_COUNT = re.compile(r"(?P<count>-?[0-9]{1,20})(?P<mark>\s+\((?:DIED!|WARNING!)\))?")
_RATE = re.compile(r"\([0-9]{1,9} Gflop/s\)")
_CELSIUS = re.compile(r"(?P<celsius>[0-9]{1,3}) C\b")
_TESTED = re.compile(r"Tested [0-9]{1,3} GPUs:")
_RESULT = re.compile(r"GPU (?P<index>[0-9]{1,3}): (?P<result>OK|FAULTY)")
_FAILURE = re.compile(
    r"(?:Couldn't init a GPU test|Failure during compute|No clients are alive|No CUDA devices).*"
)
_NO_WORK = frozenset({"0", "-1"})


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`errors`: by index, of cards that died or have any. `idle`: cards that did nothing."""

    percent: int
    errors: Mapping[int, str]
    idle: frozenset[int]
    celsius: tuple[int, ...]
    line: str


@dataclass(frozen=True, kw_only=True)
class Burn:
    """`results`: whether each card is OK, by its index, and the lines that say so."""

    progress: tuple[Progress, ...] = ()
    results: Mapping[int, bool] = field(default_factory=dict)
    lines: Mapping[int, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    has_ended: bool = False
    last_line: str = ""
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Burn:
    """It writes one line of progress over the other, with a carriage return between them."""
    found = stripped(text.replace("\r", "\n"))
    progress = tuple(filter(None, map(_progress, found)))
    results = [one for one in map(_RESULT.fullmatch, found) if one]
    results.sort(key=lambda one: one["result"] != "OK")  # of several runs the one that failed
    failures = tuple(line for line in found if _FAILURE.fullmatch(line))
    has_ended = any(map(_TESTED.match, found)) and bool(results)
    is_known = progress or results or failures
    return Burn(
        progress=progress,
        results={int(one["index"]): one["result"] == "OK" for one in results},
        lines={int(one["index"]): one.string for one in results},
        failures=failures,
        has_ended=has_ended,
        last_line=found[-1] if found else "",
        unparsed=() if is_known else tuple(found),
    )


def _progress(line: str) -> Progress | None:
    shape = _PROGRESS.match(line)
    percent = whole(shape["percent"]) if shape else None
    if shape is None or percent is None:
        return None
    work, _, rest = line[shape.end() :].partition("errors: ")
    counts, _, temperatures = rest.partition("temps: ")
    errors = {
        index: one[0]
        for index, one in enumerate(_COUNT.finditer(counts.replace(" - ", " , ")))
        if one["count"] != "0" or one["mark"]
    }
    done = _RATE.sub("", work).replace(" - ", " , ").split(",")
    return Progress(
        percent=percent,
        errors=errors,
        idle=frozenset(index for index, one in enumerate(done) if one.strip() in _NO_WORK),
        celsius=tuple(int(one["celsius"]) for one in _CELSIUS.finditer(temperatures)),
        line=line,
    )


SECTION = Section(name="gpu-burn", snippet="", parse=parse, technical=EVERY_WORD)
