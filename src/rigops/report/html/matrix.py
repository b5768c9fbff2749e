"""What passes between every two cards, as a table colored by its rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.doctor.views.peers import GRANTED
from rigops.doctor.views.peers import Pair as PeerPair
from rigops.hostside.p2p.verdict import REFUSED, STATUS_OF
from rigops.record.proven import Pair as ProvenPair
from rigops.report.html.elements import Html, element, joined, prose, scrolling
from rigops.report.power_words import short

if TYPE_CHECKING:
    from rigops.preflight.found import Collapsed, PairFound

_SHADES: Final = 5
_SHORT: Final = {"not_granted": "no", "wrong_data": "WRONG", "slower_than_staged": "slow"}


@dataclass(frozen=True)
class Cell:
    """`status`: empty where it is neither good nor bad. `rate`: GB/s."""

    text: str
    status: str = ""
    rate: float | None = None
    title: str = ""


Cells = Mapping[tuple[str, str], Cell]  # by sender and receiver


def matrix(addresses: Sequence[str], cells: Cells, caption: str) -> Html:
    fastest = max((cell.rate or 0.0 for cell in cells.values()), default=0.0)
    head = element(
        "tr",
        element("th", "from \\ to", scope="col"),
        *(element("th", _bus(one), scope="col", title=one) for one in addresses),
    )
    rows = (
        element(
            "tr",
            element("th", short(row), scope="row"),
            *(_cell(cells.get((row, column)), fastest, row == column) for column in addresses),
        )
        for row in addresses
    )
    return joined(
        element("p", prose(caption), class_="about"),
        scrolling(element("table", head, *rows, class_="matrix"), caption),
    )


def of_preflight(pairs: Sequence[PairFound]) -> Cells:
    return {(one.source, one.target): _of_pair(one) for one in pairs}


def of_pairs_at_once(pairs: Sequence[PairFound], collapsed: Sequence[Collapsed]) -> Cells:
    expected = {(one.source, one.target): one.expected_gb_per_s for one in collapsed}
    cells = {}
    for pair in pairs:
        rate, key = pair.together_gb_per_s, (pair.source, pair.target)
        if rate is None:
            continue
        alone = f"{pair.gb_per_s:g} GB/s alone" if pair.gb_per_s else ""
        if key in expected:
            title = f"collapsed: {expected[key]:g} GB/s expected; {alone}"
            cells[key] = Cell(f"{rate:.1f}", "warn", None, title)
        else:
            cells[key] = Cell(f"{rate:.1f}", "ok", rate, alone)
    return cells


def of_records(pairs: Sequence[ProvenPair]) -> Cells:
    return {(one.source, one.target): _verdict(one.verdict, one.gb_per_s, "") for one in pairs}


def of_rates(rates: Mapping[tuple[int, int], float], named: Mapping[int, str]) -> Cells:
    """By the numbers of a program."""
    return {
        (named.get(one, str(one)), named.get(other, str(other))): _verdict("ok", rate, "")
        for (one, other), rate in rates.items()
    }


def of_grants(pairs: Sequence[PeerPair]) -> Cells:
    """What the driver would allow, which is no proof."""
    cells: dict[tuple[str, str], Cell] = {}
    for pair in pairs:
        for one, other, grant in (
            (pair.one, pair.other, pair.there),
            (pair.other, pair.one, pair.back),
        ):
            link = pair.link or ""
            title = f"driver: {grant or 'not reported'}; link: {link or 'not reported'}"
            text = " ".join(filter(None, (grant or "?", link)))
            status = {GRANTED: "granted", None: "skipped"}.get(grant, "")
            cells[one.address, other.address] = Cell(text, status, None, title)
    return cells


def _of_pair(pair: PairFound) -> Cell:
    parts = [
        pair.verdict.replace("_", " "),
        f"level {pair.level}",
        f"link {pair.link}" if pair.link else "",
        f"{pair.both_ways_gb_per_s:g} GB/s both ways" if pair.both_ways_gb_per_s else "",
        f"{pair.staged_gb_per_s:g} GB/s through host memory" if pair.staged_gb_per_s else "",
        f"{pair.latency_us:g} us" if pair.latency_us else "",
        *pair.evidence,
    ]
    return _verdict(pair.verdict, pair.gb_per_s, "; ".join(filter(None, parts)))


def _verdict(verdict: str, rate: float | None, title: str) -> Cell:
    status = STATUS_OF.get(verdict, "unknown")
    if verdict in REFUSED and status == "ok":
        return Cell(_SHORT.get(verdict, verdict), "skipped", None, title or "no access (normal)")
    if status == "ok":
        return Cell("ok" if rate is None else f"{rate:.1f}", "ok", rate, title or verdict)
    word = _SHORT.get(verdict, verdict.replace("_", " "))
    return Cell(word, status, None, title or verdict.replace("_", " "))


def _cell(cell: Cell | None, fastest: float, is_same: bool) -> Html:  # noqa: FBT001 - of a place
    if is_same:
        return element("td", "-", class_="same")
    if cell is None:
        return element("td", "?", class_="skipped", title="not tried")
    if cell.rate is None:
        return element("td", cell.text, class_=cell.status or None, title=cell.title)
    shade = round(cell.rate / fastest * _SHADES) if fastest else 0
    return element("td", cell.text, class_=f"heat{shade}", title=cell.title)


def _bus(address: str) -> str:
    """Short enough for a column of eight on a phone, where it still tells cards apart."""
    return short(address).removesuffix(".0").removesuffix(":00")
