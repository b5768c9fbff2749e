"""A preflight as a document and in words: a phrase, what to declare, a paragraph to paste. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rigops import __version__
from rigops.hostside.p2p.verdict import FAIL, GRAVEST_FIRST, STATUS_OF
from rigops.preflight.environment import DISABLE, environment
from rigops.preflight.found import HostFound, PairFound, overall

_FAILURES: Final = {
    "hang": "copies hang",
    "wrong_data": "wrong data",
    "mirror": "data does not arrive",
    "unstable": "data is sometimes wrong",
    "error": "CUDA errors",
    "hardware": "wrong data through host memory too",
}
SCHEMA: Final = "rigops.preflight/1"
NO_P2P: Final = '"nccl": {"NCCL_P2P_DISABLE": "1"}'

_SIZE: Final = re.compile(r"\b[0-9]+ (?:B|KiB|MiB)\b")
_AT_ONCE: Final = "all pairs at once"


def in_a_word(found: HostFound) -> str:
    """Its status and level; those say nothing where no pair was tried."""
    level = f" at level {found.level}" if found.level else ""
    return found.nothing_to_prove or f"{found.status}{level}"


def failure_text(found: HostFound) -> str:
    """That of pairs; else the first reason."""
    reason = next(iter(found.reasons), "") or (found.error.message if found.error else "")
    return failure_of_pairs(found) or reason.partition("; fix:")[0]


def failure_of_pairs(found: HostFound) -> str:
    """The commonest, with where it was seen; empty where none failed."""
    failed = [pair for pair in found.pairs if STATUS_OF[pair.verdict] == FAIL]
    if not failed:
        return ""
    ((verdict, count),) = Counter(pair.verdict for pair in failed).most_common(1)
    first = next(pair for pair in failed if pair.verdict == verdict)
    evidence = " ".join(first.evidence)
    size = _SIZE.search(evidence)
    where = _AT_ONCE if _AT_ONCE in evidence else size[0] if size else ""
    at = ", ".join(filter(None, (first.level, where)))
    return f"{_FAILURES[verdict]} on {count} of {len(found.pairs)} pairs ({at})"


def stopgap(found: HostFound) -> str:
    """As in an inventory: what keeps programs off what failed; empty where nothing does."""
    variables = environment(found).variables
    named = ", ".join(f'"{variable.name}": "{variable.value}"' for variable in variables)
    return f'"nccl": {{{named}}}' if variables else ""


def has_stopgap(found: HostFound, nccl: Mapping[str, str]) -> bool:
    """Whether the declared `nccl` keeps programs off what failed."""
    wanted = {one.name: one.value for one in environment(found).variables}
    return bool(wanted) and (nccl.get(DISABLE) == "1" or wanted.items() <= nccl.items())


_MOST_NAMED: Final = 2


def paragraph(found: HostFound) -> str:
    return " ".join(f"{sentence}." for sentence in _sentences(found))


def _sentences(found: HostFound) -> Iterator[str]:
    day = f" on {found.at[:10]}" if found.at else ""
    yield f"rigops {__version__} preflight{day}: {in_a_word(found)}"
    if found.container is not None:
        yield f"In a container of {found.container.engine}"
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
    named = ", ".join(f"{pair.source} to {pair.target}" for pair in pairs[:_MOST_NAMED])
    more = ", …" if len(pairs) > _MOST_NAMED else ""
    evidence = f" ({first.evidence[0]})" if first.evidence else ""
    return f"{count}, {named}{more}{evidence}"


def document(hosts: Sequence[HostFound]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "status": overall(hosts),
        "hosts": [
            {
                **host.as_json(),
                "env": environment(host).as_json(),
                "paragraph": paragraph(host),
            }
            for host in hosts
        ],
    }
