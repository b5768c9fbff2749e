"""From the answer of a host and its declaration to the result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog
from rigops.catalog.links import CHANGED_IN, NEAR_TO_FAR, SHARED_MEMORY, predict
from rigops.hostside.p2p.verdict import (
    FAIL,
    FAILED,
    OK,
    REFUSED,
    STATUS_OF,
    UNKNOWN,
    WARN,
    Demand,
    gravest,
    judge_host,
)
from rigops.preflight.at_once import at_once
from rigops.preflight.changes import (
    Change,
    changes_of,
    gravity_of,
    in_words,
    not_compared,
    not_compared_text,
)
from rigops.preflight.chosen_pairs import NOT_CHOSEN
from rigops.preflight.differences import differences
from rigops.preflight.found import CollectivesFound, HostFound
from rigops.preflight.payload import PayloadReport
from rigops.preflight.siblings import LastRates, slow_pairs
from rigops.probe.lost_cards import sentence
from rigops.probe.sections import nvidia_smi_topo

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

_STATUS_OF_TROUBLE: Final = {"note": OK, "no_library": UNKNOWN, "no_device": OK, "hang": FAIL}
_SLOWER_WITH_P2P: Final = 0.9  # closer than that is noise
_LEFT_OUT: Final = ("skipped", "unknown")
_WHY_COLLECTIVES_FAIL: Final = {
    "p2p": "all-reduce by NCCL fails with P2P and is right without; fix: train with "
    "NCCL_P2P_DISABLE=1 until preflight passes",
    "other": "all-reduce by NCCL fails without P2P as well, so P2P is not the cause; fix: look at "
    "the cards, their slots and the memory of the host; NCCL_P2P_DISABLE=1 does not help",
}
_WORDS: Final = {
    "no_library": "cannot load the driver's CUDA library: {}",
    "no_device": "CUDA sees no GPU: {}",
}


def judge(
    host: str,
    answer: PayloadReport,
    spec: RigSpec | None,
    *,
    copies: bool,
    last: LastRates | None = None,
    catalog: Catalog | None = None,
    outside: PayloadReport | None = None,
) -> HostFound:
    """`last`: of the proof before. `catalog`: where a host has entries of its own.

    `outside`: of the host, where the answer is of a container there.
    """
    addresses = [gpu.address for gpu in answer.gpus]
    named = named_links(answer.topology, addresses) or {}
    links = connections(answer.topology, addresses)
    verdicts = {(pair.source, pair.target): pair.verdict for pair in answer.pairs}
    demand = Demand(
        p2p=(spec.p2p if spec else None) or "measure",
        gpus=(spec.gpus.count or None) if spec and spec.gpus else None,
        wired=None if links is None else [pair for pair, link in links.items() if link == "NV"],
        copies=copies and not answer.is_partial,
    )
    granted = {pair for pair, verdict in verdicts.items() if verdict not in REFUSED}
    status, reasons = judge_host(verdicts, len(answer.gpus), demand)
    copied = sum(pair.is_only_copied for pair in answer.pairs)
    if copied:
        status = gravest((status, WARN))
        reasons = [*reasons, f"{copied} of {len(answer.pairs)} pairs are only copied"]
    together = {(flow.source, flow.target): flow.gb_per_s for flow in answer.flows}
    pairs = tuple(
        replace(
            pair,
            link=named.get((pair.source, pair.target), ""),
            together_gb_per_s=together.get((pair.source, pair.target)),
        )
        for pair in answer.pairs
    )
    all_at_once = at_once(pairs, answer)
    slow = slow_pairs(pairs, answer, last=last, catalog=catalog)
    changes = changes_of(answer.around) if answer.around else None
    unread = not_compared(answer.around) if answer.around else ()
    differs = tuple(differences(outside, answer)) if outside else ()
    troubles = [
        *((one.status, one.summary) for one in differs),
        *_reasons(answer),
        *_collectives(answer.collectives, is_granted=bool(granted)),
        *_of_changes(changes or (), answer),
    ]
    slower = [str(one) for one in slow]
    if all_at_once and all_at_once.collapsed:
        slower.append(all_at_once.collapse)
    status = gravest([status, *(gravity for gravity, _ in troubles), *(WARN for _ in slower)])
    if unread and status != FAIL:  # what was not compared must not look unchanged
        troubles.append((OK, not_compared_text(unread)))
    return HostFound(
        host=host,
        status=status,
        level=_level(answer, copies=copies),
        needs_reboot=answer.needs_reboot,
        is_partial=answer.is_partial,
        predicted_nccl_transport=predicted_transport(
            links,
            granted,
            gpus=len(answer.gpus),
            processor=answer.processor,
        ),
        machine=answer.machine,
        gpus=answer.gpus,
        pairs=pairs,
        collectives=answer.collectives,
        changes=changes,
        links=answer.around.links if answer.around else (),
        not_compared=unread,
        differs=differs,
        lost=sentence(answer.lost),
        reasons=(*(text for _, text in troubles), *reasons, *slower),
        slow_pairs=slow,
        together=all_at_once,
    )


def named_links(topology: str, addresses: Sequence[str]) -> Mapping[tuple[str, str], str] | None:
    """The link of each ordered pair of cards; None where `nvidia-smi topo -m` is incomplete.

    nvidia-smi and CUDA both number cards in the order of the bus, so equal numbers mean equal
    cards, unless one of them sees more cards than the other.
    """
    found = nvidia_smi_topo.parse(topology)
    if found.gpus != tuple(range(len(addresses))):
        return None
    return {
        (addresses[one], addresses[other]): found.links.get((one, other), "")
        for one, other in permutations(found.gpus, 2)
    }


def connections(topology: str, addresses: Sequence[str]) -> Mapping[tuple[str, str], str] | None:
    """The same with NV for any number of NVLinks; None where one is not known."""
    links = named_links(topology, addresses)
    if links is None:
        return None
    ways = {pair: "NV" if link.startswith("NV") else link for pair, link in links.items()}
    return ways if all(way in NEAR_TO_FAR for way in ways.values()) else None


def _level(answer: PayloadReport, *, copies: bool) -> str | None:
    """The lowest that failed, else the highest that every pair passed to which there is access.

    None where a card is lost, or there is access to none.
    """
    granted = [pair for pair in answer.pairs if pair.verdict not in REFUSED]
    if answer.lost or not granted:
        return None
    failed = [pair.level for pair in granted if STATUS_OF[pair.verdict] == FAIL]
    if failed:
        return min(failed)
    if not copies or any(pair.verdict in _LEFT_OUT for pair in granted):
        return "L0"
    return min(pair.level for pair in granted)


def _reasons(answer: PayloadReport) -> Iterator[tuple[str, str]]:
    if answer.is_partial:
        left = sum(NOT_CHOSEN in pair.evidence for pair in answer.pairs)
        yield OK, f"{left} of {len(answer.pairs)} pairs were left out: no proof of the host"
    for trouble in answer.troubles:
        words = _WORDS.get(trouble.kind, "{}").format(trouble.message)
        yield _STATUS_OF_TROUBLE.get(trouble.kind, UNKNOWN), words
    if answer.lost:
        yield FAIL, f"{sentence(answer.lost)}: nothing was copied"
    seen = {gpu.address for gpu in answer.gpus} | {card.address for card in answer.lost}
    unseen = [address for address in answer.driven if address not in seen]
    if unseen and answer.gpus:
        yield FAIL, f"CUDA does not list {', '.join(unseen)}, bound to the NVIDIA driver"
    elif answer.on_bus and not answer.gpus:
        yield UNKNOWN, f"CUDA lists none of the {answer.on_bus} NVIDIA cards on the bus"


def _of_changes(changes: Sequence[Change], answer: PayloadReport) -> Iterator[tuple[str, str]]:
    cards = [gpu.address for gpu in answer.gpus]
    for change in changes:
        grave = gravity_of(change, cards)
        if grave != OK:
            yield grave, f"during the copies: {in_words(change)}"


def _collectives(found: CollectivesFound, *, is_granted: bool) -> Iterator[tuple[str, str]]:
    """`is_granted`: P2P to some pair; without, both arms take the same way."""
    if found.verdict == FAILED:
        yield FAIL, _WHY_COLLECTIVES_FAIL.get(found.cause, "all-reduce by NCCL fails")
    with_p2p, without = found.p2p_gb_per_s, found.control_gb_per_s
    if is_granted and with_p2p and without and with_p2p < without * _SLOWER_WITH_P2P:
        rates = f"{with_p2p:.1f} GB/s with, {without:.1f} without"
        yield OK, f"all-reduce by NCCL is slower with P2P than without ({rates}): look into it"


def predicted_transport(
    ways: Mapping[tuple[str, str], str] | None,
    granted: Collection[tuple[str, str]],
    *,
    gpus: int,
    processor: str,
) -> str | None:
    """P2P or SHM, by NCCL version where they differ; None if unknown."""
    if gpus < 2:  # noqa: PLR2004 - a pair
        return None
    if not granted:
        return SHARED_MEMORY
    if ways is None:
        return None
    found = predict(ways, granted, gpus=gpus, processor=processor)
    if found.since == found.before:
        return found.since
    return f"{found.since} (before NCCL {CHANGED_IN}: {found.before})"
