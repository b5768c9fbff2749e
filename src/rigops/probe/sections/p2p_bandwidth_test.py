"""What CUDA's own samples measure between cards: p2pBandwidthLatencyTest and simpleP2P."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe import address
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import stripped

Quantity = Literal["unidirectional", "bidirectional", "latency"]
Pair = tuple[int, int]  # source and target, in CUDA's numbering

_BANNER = re.compile(
    r"\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]|\[[^][]{0,300}\] - Starting\."
)
_DEVICE = re.compile(
    r"Device: (?P<index>[0-9]{1,3}), (?P<name>.{1,120}?), pciBusID: (?P<bus>[0-9a-f]{1,2}),"
    r" pciDeviceID: (?P<device>[0-9a-f]{1,2}), pciDomainID: ?(?P<domain>[0-9a-f]{1,8})"
)
_ACCESS = re.compile(
    r"Device=(?P<one>[0-9]{1,3}) (?P<can>CAN|CANNOT) Access Peer Device=(?P<other>[0-9]{1,3})"
)
_PEER_ACCESS = re.compile(
    r"(?:> )?Peer access from .{0,120}?\(GPU(?P<one>[0-9]{1,3})\) -> "
    r".{0,120}?\(GPU(?P<other>[0-9]{1,3})\) ?: (?P<can>Yes|No)"
)
_TITLE = re.compile(
    r"(?:(?P<way>Uni|Bi)directional )?P2P=(?P<state>Enabled|Disabled) (?P<what>Bandwidth|Latency)"
)
_CONNECTIVITY = "P2P Connectivity Matrix"
_HEAD = re.compile(r"(?P<by>D\\D|GPU|CPU)(?P<columns>(?:\s+[0-9]{1,3})+)")
_ROW = re.compile(r"(?P<index>[0-9]{1,3})(?P<cells>(?:\s+(?:[0-9]{1,12}(?:\.[0-9]{1,6})?|nan))+)")
_WRONG = re.compile(r"Verification error\b|.{0,80}\bval = ")
_RESULT = re.compile(r"Test (?P<result>passed|failed)\b|.{0,80}\b(?P<waived>waiving test)")
_ERROR = re.compile(r"(?:.{0,200}\b)?(?:CUDA|Cuda|cuda) (?:error|failure|Runtime error)\b")
_END = "NOTE: The CUDA Samples are not meant for performance"
_ELISION = re.compile(r"\[?(?:\.\.\.|…|snip|SNIP|<snip>)\]?.{0,20}")
_MOST = 256  # no machine has as many devices


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """`by`: whose latency it is, GPU or CPU. `rows`: by their index, as they were printed."""

    title: str
    quantity: Quantity
    is_enabled: bool
    by: str
    cells: Mapping[Pair, float]
    rows: Mapping[int, str]
    is_complete: bool


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of one of the programs. `has_begun`, `has_ended`: its first and last words are there.

    `names`: of the devices, by CUDA's number, as `addresses`.
    `access`: whether the driver grants it. `result`: simpleP2P's own. `wrong`: lines with values
    that did not arrive.
    """

    addresses: Mapping[int, str] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    access: Mapping[Pair, bool] = field(default_factory=dict)
    access_lines: Mapping[Pair, str] = field(default_factory=dict)
    matrices: tuple[Matrix, ...] = ()
    wrong: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    result: Literal["passed", "failed", "waived"] | None = None
    result_line: str = ""
    has_begun: bool = False
    has_ended: bool = False
    last_line: str = ""


@dataclass(frozen=True)
class PeerTests:
    runs: tuple[Run, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> PeerTests:
    found = stripped(text)
    runs = tuple(_run(part) for part in _parts(found) if any(map(_is_known, part)))
    return PeerTests(runs, () if runs else tuple(found))


def _is_known(line: str) -> bool:
    shapes = (_BANNER, _DEVICE, _ACCESS, _PEER_ACCESS, _TITLE, _WRONG, _RESULT)
    return any(shape.match(line) for shape in shapes)


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """A run begins with its banner; tables alone, with the first that was there before."""
    part: list[str] = []
    titles: set[str] = set()
    for line in lines:
        is_title = _TITLE.match(line) is not None
        if part and (_BANNER.match(line) or (is_title and line in titles)):
            yield part
            part, titles = [], set()
        part.append(line)
        if is_title:
            titles.add(line)
    yield part


def _run(lines: Sequence[str]) -> Run:
    access: dict[Pair, bool] = {}
    access_lines: dict[Pair, str] = {}
    for line in lines:
        shape = _ACCESS.match(line) or _PEER_ACCESS.match(line)
        if shape and len(access) < _MOST * _MOST:
            pair = int(shape["one"]), int(shape["other"])
            access[pair], access_lines[pair] = shape["can"] in {"CAN", "Yes"}, line
    result = next(filter(None, map(_RESULT.match, lines)), None)
    devices = list(filter(None, map(_DEVICE.match, lines)))
    addresses = {
        int(one["index"]): address.normal(
            f"{one['domain']:>04}:{one['bus']:>02}:{one['device']:>02}.0"
        )
        for one in devices
    }
    return Run(
        addresses={index: where for index, where in addresses.items() if where},
        names={int(one["index"]): one["name"] for one in devices},
        access=access,
        access_lines=access_lines,
        matrices=tuple(_matrices(lines)),
        wrong=tuple(line for line in lines if _WRONG.match(line)),
        errors=tuple(line for line in lines if _ERROR.match(line)),
        result=_result(result),
        result_line=result.string if result else "",
        has_begun=_BANNER.match(lines[0]) is not None,
        has_ended=result is not None or any(line.startswith(_END) for line in lines),
        last_line=lines[-1],
    )


def _result(shape: re.Match[str] | None) -> Literal["passed", "failed", "waived"] | None:
    if shape is None:
        return None
    return "waived" if shape["waived"] else "passed" if shape["result"] == "passed" else "failed"


def _matrices(lines: Sequence[str]) -> Iterator[Matrix]:
    """A title with no row below it is a matrix with no cell."""
    title: re.Match[str] | None = None
    by, columns = "", list[int]()
    rows: dict[int, tuple[str, list[float]]] = {}
    for line in [*lines, _END]:
        shape, head, row = _TITLE.match(line), _HEAD.fullmatch(line), _ROW.fullmatch(line)
        is_over = bool(rows) and not row
        if title and (shape or line.startswith((_CONNECTIVITY, _END)) or is_over):
            yield _matrix(title, by, columns, rows)
            rows = {}
        if shape:
            title, by, columns = shape, "", []
        elif line.startswith((_CONNECTIVITY, _END)) or (is_over and not head):
            title = None
        elif head:
            by, columns = head["by"], [int(one) for one in head["columns"].split()[:_MOST]]
        elif row and title and len(rows) < _MOST:
            rows[int(row["index"])] = line, [float(one) for one in row["cells"].split()]


def _matrix(
    title: re.Match[str],
    by: str,
    columns: Sequence[int],
    rows: Mapping[int, tuple[str, list[float]]],
) -> Matrix:
    widest = max((len(cells) for _, cells in rows.values()), default=0)
    names = columns or range(widest)
    way: Quantity = "unidirectional" if title["way"] == "Uni" else "bidirectional"
    return Matrix(
        title=title.string,
        quantity="latency" if title["what"] == "Latency" else way,
        is_enabled=title["state"] == "Enabled",
        by=by,
        cells={
            (index, name): cell
            for index, (_, cells) in rows.items()
            for name, cell in zip(names, cells, strict=False)
        },
        rows={index: line for index, (line, _) in rows.items()},
        is_complete=bool(rows)
        and set(rows) >= set(names)
        and all(len(cells) == len(names) for _, cells in rows.values()),
    )


def is_elided(line: str) -> bool:
    """Whether the paste marks lines as left out here."""
    return _ELISION.fullmatch(line) is not None


SECTION = Section(
    name="p2p-bandwidth-test",
    snippet="",
    parse=parse,
    technical=EVERY_WORD,
)
