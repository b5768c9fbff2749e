"""The effect of a preflight on the records: a proof, a failure, or neither. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rigops.hostside.p2p.verdict import FAIL, SKIPPED, STATUS_OF
from rigops.preflight.found import HostFound, PairFound
from rigops.preflight.headline import NO_P2P, failure_text, stopgap
from rigops.record import Pair
from rigops.record.proven import BEGUN, FailedProof

_PASSED: Final = ("ok", "warn")


def passed(found: HostFound) -> bool:
    """Every pair that the driver grants was tried."""
    is_whole = all(STATUS_OF[pair.verdict] != SKIPPED for pair in found.pairs)
    return found.status in _PASSED and bool(found.pairs) and is_whole


def pairs_of(found: HostFound) -> tuple[Pair, ...]:
    return tuple(
        Pair(pair.source, pair.target, pair.verdict, pair.gb_per_s) for pair in found.pairs
    )


def begun(at_stake: Iterable[PairFound], at: str, versions: Mapping[str, str]) -> FailedProof:
    """Before the copies; what it says counts until they have passed."""
    pairs = tuple(Pair(pair.source, pair.target, BEGUN, None) for pair in at_stake)
    return FailedProof(at=at, versions=versions, pairs=pairs, stopgap=NO_P2P)


def failure(found: HostFound, at: str, versions: Mapping[str, str]) -> FailedProof | None:
    """None: it has not failed, though it may not have passed either.

    A card that was lost before says nothing of the copies of before, and none was made.
    """
    if found.status != FAIL or found.lost:
        return None
    failed = tuple(pair for pair in pairs_of(found) if STATUS_OF.get(pair.verdict) == FAIL)
    return FailedProof(
        at=at,
        versions=versions,
        pairs=failed,
        reasons=found.reasons,
        failure=failure_text(found),
        stopgap=stopgap(found),
    )


def only_over(found: HostFound, begun_now: FailedProof | None) -> FailedProof | None:
    """The record from before the copies, where no other record of a failure may go for this one.

    So that pairs which nobody tried do not count as mended, nor a run without a verdict as a hang.
    """
    if found.status == FAIL:
        return begun_now if found.is_partial else None
    return begun_now if found.status in _PASSED and not passed(found) else None
