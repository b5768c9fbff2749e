"""What NVIDIA's nvbandwidth measures, test by test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import stripped

Pair = tuple[int, int]  # row and column of its table

_RUNNING = re.compile(r"Running (?P<name>[a-z][a-z0-9_]{3,80})\.?")
_WAIVED = re.compile(r"(?:Waiv(?:ing|ed)|WAIVED)\b:?\s{0,4}(?P<name>[a-z][a-z0-9_]{3,80})?.{0,200}")
_TABLE = re.compile(r"mem(?:cpy|ory) .{1,80}\((?:row|column)\).{0,80}")
_COLUMNS = re.compile(r"[0-9]{1,3}(?:\s+[0-9]{1,3})*")
_ROW = re.compile(r"(?P<index>[0-9]{1,3})(?P<cells>(?:\s+(?:[0-9]{1,12}\.[0-9]{1,6}|N/A|nan))+)")
_SUM = re.compile(r"SUM (?P<name>[a-z][a-z0-9_]{3,80}) [0-9.]{1,20}")
_WRONG = "Invalid value when checking the pattern"
_ERROR = re.compile(r"ERROR\b.*|\[?CUDA_ERROR_.*|ASSERT in expression.*|.{0,200}core dumped.*")
_DRIVER = re.compile(r'"?Driver Version"? ?: ?"?(?P<version>[0-9]{2,4}(?:\.[0-9]{1,4}){1,2})"?,?')
_DEVICE = re.compile(
    r'(?:Device |")(?P<index>[0-9]{1,3}): (?P<name>NVIDIA [^:"()]{1,80}?)'
    r'(?: \(.{1,40}|:.{0,40}|",?)?'
)
_SKIPS_VERIFICATION = re.compile(r"\bnvbandwidth\b(?: .{0,200})? (?:-s|--skipVerification)\b")
_BEFORE_TESTS = '"testcases"'
_VALUE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,17})?")
_MOST = 256  # no machine has as many devices


@dataclass(frozen=True, kw_only=True)
class BandwidthTest:
    """`wrong`, `errors`: lines. `cells`: of one table, GB/s; None where a pair was left out."""

    name: str
    cells: Mapping[Pair, float | None] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    line: str
    is_waived: bool = False
    is_finished: bool = False


@dataclass(frozen=True)
class Bandwidths:
    """`devices`: names by CUDA's number. `driver_line`: as it was printed."""

    tests: tuple[BandwidthTest, ...] = ()
    checks_data: bool = True  # which it does unless it is told not to
    unparsed: tuple[str, ...] = ()
    driver: str = ""
    driver_line: str = ""
    devices: Mapping[int, str] = field(default_factory=dict)


def parse(text: str) -> Bandwidths:
    found = stripped(text)
    tests = tuple(_of_objects(text) if _BEFORE_TESTS in text else _tests(found))
    skips = any(map(_SKIPS_VERIFICATION.search, found))
    driver = next(filter(None, map(_DRIVER.fullmatch, found)), None)
    devices = filter(None, map(_DEVICE.fullmatch, found))
    return Bandwidths(
        tests,
        checks_data=not skips,
        unparsed=() if tests else tuple(found),
        driver=driver["version"] if driver else "",
        driver_line=driver.string if driver else "",
        devices={int(one["index"]): one["name"] for one in islice(devices, _MOST)},
    )


def _of_objects(text: str) -> Iterator[BandwidthTest]:
    """Of `nvbandwidth -j`; of an output that was cut, the tests that are whole."""
    decoder = json.JSONDecoder()
    at = text.find("{", text.index(_BEFORE_TESTS))
    while at >= 0:
        try:
            one, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        if isinstance(one, dict) and isinstance(name := one.get("name"), str):
            yield _of_object(name, one)
        at = text.find("{", end)


def _of_object(name: str, one: Mapping[str, object]) -> BandwidthTest:
    matrix = one.get("bandwidth_matrix")
    rows = [row for row in matrix if isinstance(row, list)] if isinstance(matrix, list) else []
    status, error = (str(one.get(key) or "") for key in ("status", "error"))
    return BandwidthTest(
        name=name,
        cells={
            (at, column): float(cell) if _VALUE.fullmatch(cell) else None
            for at, row in enumerate(rows[:_MOST])
            for column, cell in enumerate(map(str, row[:_MOST]))
        },
        rows=tuple(f"{at} {json.dumps(row)}" for at, row in enumerate(rows[:_MOST])),
        wrong=(error,) if error.startswith(_WRONG) else (),
        errors=(error or f"{name}: {status}",)
        if status == "Error" and not error.startswith(_WRONG)
        else (),
        line=f'"name" : "{name}"',
        is_waived=status == "Waived" and not rows,
        is_finished=status == "Passed",
    )


def _tests(lines: Sequence[str]) -> Iterator[BandwidthTest]:
    body: list[str] = []
    for line in lines:
        running, waived = _RUNNING.fullmatch(line), _WAIVED.fullmatch(line)
        if running or (waived and waived["name"]) or (_TABLE.fullmatch(line) and not body):
            if body:
                yield _test(body)
            body = [line]
        elif body:
            body.append(line)
    if body:
        yield _test(body)


def _test(lines: Sequence[str]) -> BandwidthTest:
    head, waived = lines[0], next(filter(None, map(_WAIVED.fullmatch, lines)), None)
    running = _RUNNING.fullmatch(head)
    total = next(filter(None, map(_SUM.fullmatch, lines)), None)
    name = (
        running["name"] if running else total["name"] if total else (waived or {"name": ""})["name"]
    )
    columns: list[int] = []
    cells: dict[Pair, float | None] = {}
    rows: list[str] = []
    for line in lines:
        row = _ROW.fullmatch(line)
        if row and len(rows) < _MOST:
            rows.append(line)
            for column, cell in zip(columns, row["cells"].split(), strict=False):
                is_number = cell not in {"N/A", "nan"}
                cells[int(row["index"]), column] = float(cell) if is_number else None
        elif not rows and _COLUMNS.fullmatch(line):
            columns = [int(one) for one in line.split()[:_MOST]]
    return BandwidthTest(
        name=name or "",
        cells=cells,
        rows=tuple(rows),
        wrong=tuple(line for line in lines if line.startswith(_WRONG)),
        errors=tuple(line for line in lines if _ERROR.fullmatch(line)),
        line=head,
        is_waived=waived is not None and not rows,
        is_finished=total is not None,
    )


SECTION = Section(name="nvbandwidth", snippet="", parse=parse, technical=EVERY_WORD)
