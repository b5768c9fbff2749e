"""A preflight in one paragraph that a person can paste into an issue: no host is named. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops import __version__
from rigops.hostside.p2p.verdict import GRAVEST_FIRST, STATUS_OF
from rigops.preflight.environment import environment
from rigops.preflight.headline import in_a_word

if TYPE_CHECKING:
    from rigops.preflight.found import HostFound, PairFound

_NAMED: Final = 2


def paragraph(found: HostFound) -> str:
    return " ".join(f"{sentence}." for sentence in _sentences(found))


def _sentences(found: HostFound) -> Iterator[str]:
    day = f" on {found.at[:10]}" if found.at else ""
    yield f"rigops {__version__} preflight{day}: {in_a_word(found)}"
    cards = Counter(gpu.name for gpu in found.gpus)
    machine = [
        found.machine.board,
        f"kernel {found.machine.kernel}" if found.machine.kernel else "",
        f"driver {found.machine.driver}" if found.machine.driver else "",
        *(f"{count} x {name}" for name, count in cards.items()),
    ]
    if any(machine):
        yield ", ".join(filter(None, machine))
    verdicts = set() if found.nothing_to_prove else {pair.verdict for pair in found.pairs}
    for verdict in sorted(verdicts, key=_gravity):
        alike = [pair for pair in found.pairs if pair.verdict == verdict]
        yield _of_verdict(alike, of=len(found.pairs))
    yield from found.reasons
    if found.error is not None:
        yield found.error.message
    for variable in environment(found).variables:
        yield f"Advice: {variable.name}={variable.value} until preflight passes"


def _gravity(verdict: str) -> tuple[int, str]:
    return GRAVEST_FIRST.index(STATUS_OF[verdict]), verdict


def _of_verdict(pairs: Sequence[PairFound], *, of: int) -> str:
    first = pairs[0]
    count = f"{first.verdict}: {len(pairs)} of {of} pairs"
    if STATUS_OF[first.verdict] in {"ok", "skipped"}:
        return count
    named = ", ".join(f"{pair.source} to {pair.target}" for pair in pairs[:_NAMED])
    more = ", …" if len(pairs) > _NAMED else ""
    evidence = f" ({first.evidence[0]})" if first.evidence else ""
    return f"{count}, {named}{more}{evidence}"
