"""Results of preflight in lines: a matrix for each host, then the pairs that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rigops.hostside.p2p.verdict import FAIL, GRAVEST_FIRST, OK, REFUSED, SKIPPED, STATUS_OF
from rigops.report.terminal import styled
from rigops.report.words import MARGIN, grouped, wrapped

if TYPE_CHECKING:
    from rigops.preflight.document import HostFound, PairFound

_COLORS = {"fail": "red", "unknown": "magenta", "warn": "yellow", "ok": "green", "skipped": "cyan"}
_ONE_PAIR = 2

_UNTIL = "until copies pass, train with NCCL_P2P_DISABLE=1"
_REST = "Not tested by this version: kernel access, flags, collectives."
PROVEN = f"Copies are proven. {_REST}"
NOTHING_GRANTED = f"No pair has peer access: no copies to test. {_REST}"
NOT_PROVEN = f"Copies are not proven. {_REST}"


def preflight_lines(hosts: Sequence[HostFound], width: int) -> list[str]:
    """Worst first."""
    ordered = sorted(hosts, key=lambda host: GRAVEST_FIRST.index(host.status))
    lines = [line for host in ordered for line in (*_host(host, width), "")]
    return [*lines, *_last_lines(hosts)]


def _last_lines(hosts: Sequence[HostFound]) -> list[str]:
    """One line where all hosts have the same."""
    by_words = grouped(hosts, _proven)
    if len(by_words) == 1:
        return list(by_words)
    return [
        f"{', '.join(host.host for host in same)}: {words}"
        for words, same in sorted(by_words.items())
    ]


def _proven(host: HostFound) -> str:
    if host.level != "L1" or host.status in ("fail", "unknown", "skipped"):
        return NOT_PROVEN
    refused = all(pair.verdict in REFUSED for pair in host.pairs)
    return NOTHING_GRANTED if refused else PROVEN


def _host(host: HostFound, width: int) -> Iterator[str]:
    about = [_styled(host.status)]
    about += [f"level {host.level}"] if host.level else []
    about += (
        [f"NCCL will use {host.predicted_nccl_transport}"] if host.predicted_nccl_transport else []
    )
    yield styled(host.host, bold=True) + "  " + ", ".join(about)
    if host.error is not None:
        yield from wrapped(f"{host.error.kind}: {host.error.message}", width)
    for reason in host.reasons:
        yield from wrapped(reason, width)
    if host.needs_reboot:
        yield from wrapped("a process is stuck in the driver; fix: reboot the host", width)
    if len(host.gpus) >= _ONE_PAIR:
        yield from _matrix(host)
        yield from _pairs(host, width)
        if host.status == FAIL:
            yield from wrapped(f"fix: mend what `rigops doctor {host.host}` finds; {_UNTIL}", width)
    elif host.error is None and host.status == OK:
        count = f"{len(host.gpus)} GPU" if host.gpus else "no GPU"
        yield from wrapped(f"{count}: no pair to test", width)


def _matrix(host: HostFound) -> Iterator[str]:
    """Rows send and columns receive: GB/s where copies work, else the verdict."""
    names = [gpu.address for gpu in host.gpus]
    pairs = {(pair.source, pair.target): pair for pair in host.pairs}
    cells = [[_cell(pairs, row, column) for column in names] for row in names]
    wide = max(len(text) for text in (*names, *(text for row in cells for text, _ in row)))
    yield MARGIN + "from \\ to".ljust(wide) + "".join(f"  {name:>{wide}}" for name in names)
    for name, row in zip(names, cells, strict=True):
        colored = (styled(f"  {text:>{wide}}", fg=color) for text, color in row)
        yield MARGIN + name.ljust(wide) + "".join(colored)


def _cell(
    pairs: Mapping[tuple[str, str], PairFound], source: str, target: str
) -> tuple[str, str | None]:
    if source == target:
        return "-", None
    pair = pairs.get((source, target))
    if pair is None:
        return "?", _COLORS["unknown"]
    color = _COLORS[STATUS_OF[pair.verdict]]
    if pair.verdict == "ok" and pair.gb_per_s is not None:
        return f"{pair.gb_per_s:.1f} GB/s", color
    return pair.verdict, color


def _pairs(host: HostFound, width: int) -> Iterator[str]:
    """Every pair that is not ok, with evidence; pairs with the same evidence together."""
    wrong = [pair for pair in host.pairs if pair.verdict != "ok"]
    alike = grouped(wrong, lambda pair: (pair.verdict, pair.evidence))
    for (verdict, evidence), pairs in sorted(
        alike.items(), key=lambda entry: _gravity(entry[0][0])
    ):
        which = ", ".join(f"{pair.source} to {pair.target}" for pair in pairs)
        every = len(pairs) == len(host.pairs) and len(pairs) > 1
        yield (
            MARGIN
            + styled(verdict, fg=_COLORS[STATUS_OF[verdict]])
            + ("  every pair" if every else f"  {which}")
        )
        for line in evidence:
            yield from wrapped(line, width, MARGIN * 2)


def _gravity(verdict: str) -> int:
    return GRAVEST_FIRST.index(STATUS_OF.get(verdict, SKIPPED))


def _styled(status: str) -> str:
    return styled(status, fg=_COLORS[status])
