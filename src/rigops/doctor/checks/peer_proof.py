"""Peer access between the cards: what the last preflight of this host found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import peers, proof
from rigops.hostside.p2p.verdict import HIGHEST, REFUSED

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.views.proof import LastProof
    from rigops.record import Pair
    from rigops.record.proven import FailedProof

_SHOWN_PAIRS: Final = 1
_WHY: Final = (
    "Training that copies between these cards hangs or reads wrong data, whatever the driver "
    "advertises. No earlier proof counts until a preflight has passed."
)
_FIX: Final = Fix(
    kind="hands",
    text='until a preflight passes declare "nccl": {"NCCL_P2P_DISABLE": "1"}; resolve what the '
    "other findings name, then run `rigops apply`, which proves it again",
)


@Check("p2p.proof", needs=proof.NEEDS, fixes=("hands",))
def last_preflight(examined: Examined) -> Finding:
    """The last preflight has passed, and the state that it depends on is unchanged.

    Reads the records that `rigops apply` and `rigops preflight` left on the host. One that failed
    or was interrupted fails until the next has passed. A proof depends on the driver, the kernel
    and its arguments, the board's firmware and the cards; where one of them changed, this is
    information, since the next apply proves it again; so is one of an earlier version that tried
    less, such as copies only. Where the driver grants no pair access, nothing is proven, and this
    is skipped. The firmware is not compared here.
    """
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    if examined.spec.p2p == "skip":
        return Finding("skipped", 'p2p = "skip" is declared')
    last = proof.last_proof(examined)
    if last is None:
        return Finding("unknown", "the result of the last preflight was not collected")
    if last.has_failed:
        return Finding("fail", _failed(last.failed), why=_WHY, fix=_FIX)
    return _passed(last)


def _passed(last: LastProof) -> Finding:
    if last.proven is None:
        return Finding("skipped", "no preflight is recorded on the host")
    was_tried = any(one.verdict not in REFUSED for one in last.proven.pairs)
    proven = (
        f"{'proven' if was_tried else 'preflight of'} {last.proven.at[:10]}, {last.proven.reach}"
    )
    if last.changed:
        return Finding("info", f"{proven}; since then changed: {', '.join(last.changed)}")
    if not was_tried:
        return Finding("skipped", f"nothing to prove: {proven}")
    if last.proven.level < HIGHEST:
        return Finding("info", f"{proven}; rigops preflight can go on to {HIGHEST}")
    return Finding("ok", proven)


def _failed(failed: FailedProof | None) -> str:
    if failed is None:
        return "the last preflight failed"
    day = failed.at[:10]
    if not failed.has_ended:
        return (
            f"the preflight of {day} was interrupted, or the machine hung: {_named(failed.pairs)}"
        )
    what = failed.failure or "; ".join(failed.reasons) or "no details"
    if failed.pairs and not failed.failure:  # as some versions recorded it
        what = f"{failed.pairs[0].verdict}, {_named(failed.pairs)}"
    return f"the preflight of {day} failed: {what}"


def _named(pairs: Sequence[Pair]) -> str:
    named = ", ".join(f"{one.source} to {one.target}" for one in pairs[:_SHOWN_PAIRS])
    more = len(pairs) - _SHOWN_PAIRS
    return f"{named} and {more} more pair{'s' * (more != 1)}" if more > 0 else named
