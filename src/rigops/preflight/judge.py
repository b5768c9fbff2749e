"""From the answer of a host and its declaration to the result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Final

from rigops.catalog.nccl_transport import CHANGED_IN, NEAR_TO_FAR, SHARED_MEMORY, predict
from rigops.hostside.p2p.verdict import (
    FAIL,
    OK,
    REFUSED,
    STATUS_OF,
    UNKNOWN,
    Demand,
    gravest,
    judge_host,
)
from rigops.preflight.document import HostFound
from rigops.probe.sections import nvidia_smi_topo

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.preflight.payload import Answer

_STATUS_OF_TROUBLE: Final = {"note": OK, "no_library": UNKNOWN, "no_device": OK, "hang": FAIL}
_LEFT_OUT: Final = ("skipped", "unknown")
_WORDS: Final = {
    "no_library": "cannot load the driver's CUDA library: {}",
    "no_device": "CUDA sees no GPU: {}",
}


def judge(host: str, answer: Answer, spec: RigSpec | None, *, copies: bool) -> HostFound:
    links = connections(answer.topology, [gpu.address for gpu in answer.gpus])
    verdicts = {(pair.source, pair.target): pair.verdict for pair in answer.pairs}
    demand = Demand(
        p2p=(spec.p2p if spec else None) or "measure",
        gpus=(spec.gpus.count or None) if spec and spec.gpus else None,
        wired=None if links is None else [pair for pair, link in links.items() if link == "NV"],
        copies=copies,
    )
    status, reasons = judge_host(verdicts, len(answer.gpus), demand)
    troubles = list(_reasons(answer))
    status = gravest([status, *(gravity for gravity, _ in troubles)])
    return HostFound(
        host=host,
        status=status,
        level=_level(answer, status, copies=copies),
        needs_reboot=answer.needs_reboot,
        predicted_nccl_transport=predicted_transport(
            links,
            {pair for pair, verdict in verdicts.items() if verdict not in REFUSED},
            gpus=len(answer.gpus),
            processor=answer.processor,
        ),
        gpus=answer.gpus,
        pairs=answer.pairs,
        reasons=(*(text for _, text in troubles), *reasons),
    )


def connections(topology: str, addresses: Sequence[str]) -> Mapping[tuple[str, str], str] | None:
    """The link of each ordered pair of cards; None where `nvidia-smi topo -m` is incomplete.

    nvidia-smi and CUDA both number cards in the order of the bus, so equal numbers mean equal
    cards, unless one of them sees more cards than the other.
    """
    found = nvidia_smi_topo.parse(topology)
    if found.gpus != tuple(range(len(addresses))):
        return None
    links = {
        (addresses[one], addresses[other]): found.links.get((one, other), "")
        for one, other in permutations(found.gpus, 2)
    }
    ways = {pair: "NV" if link.startswith("NV") else link for pair, link in links.items()}
    return ways if all(way in NEAR_TO_FAR for way in ways.values()) else None


def _level(answer: Answer, status: str, *, copies: bool) -> str | None:
    """The level that failed, else the highest that left no pair out."""
    if status == UNKNOWN and not answer.gpus:
        return None
    if not copies:
        return "L0"
    if any(STATUS_OF[pair.verdict] == FAIL for pair in answer.pairs):
        return "L1"
    return "L0" if any(pair.verdict in _LEFT_OUT for pair in answer.pairs) else "L1"


def _reasons(answer: Answer) -> Iterator[tuple[str, str]]:
    for trouble in answer.troubles:
        words = _WORDS.get(trouble.kind, "{}").format(trouble.message)
        yield _STATUS_OF_TROUBLE.get(trouble.kind, UNKNOWN), words
    seen = {gpu.address for gpu in answer.gpus}
    unseen = [address for address in answer.driven if address not in seen]
    if unseen and answer.gpus:
        yield FAIL, f"CUDA does not list {', '.join(unseen)}, bound to the NVIDIA driver"
    elif answer.on_bus and not answer.gpus:
        yield UNKNOWN, f"CUDA lists none of the {answer.on_bus} NVIDIA cards on the bus"


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
