"""A preflight in one phrase, and what to declare where it failed. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.verdict import FAIL, STATUS_OF
from rigops.preflight.environment import DISABLE, environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.preflight.found import HostFound

_FAILURES: Final = {
    "hang": "copies hang",
    "wrong_data": "wrong data",
    "mirror": "data does not arrive",
    "unstable": "data is sometimes wrong",
    "error": "CUDA errors",
    "hardware": "wrong data through host memory too",
}
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
