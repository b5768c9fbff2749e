"""Results of nccl-tests: all_reduce_perf and its kin, one or several runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.section import Section
from rigops.probe.text import stripped

_BEGIN = re.compile(
    r"#?\s{0,8}nThread [0-9]{1,4} nGpus [0-9]{1,4} .{0,200}?"
    r"(?:validation: (?P<validation>[0-9]).*)?"
)
_RANK = re.compile(r"#?\s{0,8}Rank\s+(?P<rank>[0-9]{1,5}) .{1,300}")
_ROW = re.compile(r"(?P<size>[0-9]{1,20})\s+[0-9]{1,20}\s+(?P<rest>[a-z][a-z0-9_]{2,15}\s.{1,300})")
_OUT_OF_BOUNDS = re.compile(
    r"#?\s{0,8}Out of bounds values\s*:\s*(?P<count>[0-9]{1,20}) (?P<result>OK|FAILED)"
)
_AVERAGE = re.compile(r"#?\s{0,8}Avg bus bandwidth\s*:\s*(?P<value>[0-9]{1,9}(?:\.[0-9]{1,9})?)")
_FAILURE = re.compile(
    r"(?:.{0,200}\W)?(?:Test )?(?:NCCL|CUDA) failure\b.*|.{0,200}: Test failure .*"
)
_LOG = "NCCL INFO"
_OF_A_GROUP = 4  # time, algbw, busbw, and how many are wrong
_MOST_BEFORE = 2  # the operation and the root


@dataclass(frozen=True, kw_only=True)
class Row:
    """`wrong`: one cell for each of out-of-place and in-place: a number, or N/A."""

    size: int  # bytes
    bus_gb_s: float | None
    wrong: tuple[str, ...]
    line: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """`validates`: None where its head was not pasted."""

    ranks: int
    validates: bool | None
    rows: tuple[Row, ...]
    has_failed: bool
    result_line: str
    average_gb_s: float | None
    failures: tuple[str, ...]
    last_line: str

    @property
    def has_ended(self) -> bool:
        return bool(self.result_line) or self.average_gb_s is not None


@dataclass(frozen=True)
class NcclTests:
    runs: tuple[Run, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> NcclTests:
    found = stripped(text)
    runs = tuple(run for part in _parts(found) if (run := _run(part)))
    return NcclTests(runs, () if runs else tuple(found))


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        if part and _BEGIN.fullmatch(line):
            yield part
            part = []
        part.append(line)
    yield part


def _run(lines: Sequence[str]) -> Run | None:
    """None: these lines are of no such program."""
    begin = next(filter(None, map(_BEGIN.fullmatch, lines)), None)
    rows = tuple(filter(None, map(_row, lines)))
    result = next(filter(None, map(_OUT_OF_BOUNDS.match, lines)), None)
    average = next(filter(None, map(_AVERAGE.match, lines)), None)
    failures = tuple(line for line in lines if _LOG not in line and _FAILURE.fullmatch(line))
    if not (begin or rows or result or average or failures):
        return None
    return Run(
        ranks=len({one["rank"] for one in map(_RANK.fullmatch, lines) if one}),
        validates=begin["validation"] != "0" if begin and begin["validation"] else None,
        rows=rows,
        has_failed=result is not None and result["result"] == "FAILED",
        result_line=result.string if result else "",
        average_gb_s=float(average["value"]) if average else None,
        failures=failures,
        last_line=next(
            (line for line in reversed(lines) if line.strip("# ") and _LOG not in line), ""
        ),
    )


def _row(line: str) -> Row | None:
    """Behind the type there may be an operation and a root, then one group of cells or two."""
    shape = _ROW.fullmatch(line)
    if shape is None:
        return None
    cells = shape["rest"].split()[1:]
    groups = len(cells) // _OF_A_GROUP
    measured = cells[len(cells) % _OF_A_GROUP :]
    if groups not in {1, 2} or len(cells) % _OF_A_GROUP > _MOST_BEFORE:
        return None
    buses = [_number(one) for one in measured[2::_OF_A_GROUP]]
    size = whole(shape["size"])
    if size is None or None in buses:
        return None
    bus = max(one for one in buses if one is not None)
    return Row(size=size, bus_gb_s=bus, wrong=tuple(measured[3::_OF_A_GROUP]), line=line)


def _number(cell: str) -> float | None:
    try:
        return float(cell) if len(cell) <= 20 else None  # noqa: PLR2004 - longer is no measurement
    except ValueError:
        return None


SECTION = Section(
    name="nccl-tests",
    snippet="",
    parse=parse,
    technical="nThread nGpus validation Rank bounds values FAILED bandwidth NCCL CUDA Test failure "
    "float half double bfloat uint none minBytes INFO",
)
