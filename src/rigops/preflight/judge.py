"""From what a host said, and what the inventory declares, to what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.preflight.document import HostFound
from rigops.preflight.nccl import predicted_transport
from rigops.preflight.verdict import (
    FAIL,
    OK,
    REFUSED,
    STATUS_OF,
    UNKNOWN,
    Demand,
    gravest,
    judge_host,
)
from rigops.preflight.wiring import connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.preflight.payload import Answer
    from rigops.spec import RigSpec

_STATUS_OF_TROUBLE: Final = {"note": OK, "no_library": UNKNOWN, "no_device": OK, "hang": FAIL}
_LEFT_OUT: Final = ("skipped", "unknown")
_WORDS: Final = {
    "no_library": "the driver's compute library is not usable: {}",
    "no_device": "CUDA sees no GPU: {}",
}


def judge(host: str, answer: Answer, spec: RigSpec | None, *, copies: bool) -> HostFound:
    ways = connections(answer.topology, [gpu.address for gpu in answer.gpus])
    verdicts = {(pair.source, pair.target): pair.verdict for pair in answer.pairs}
    demand = Demand(
        p2p=(spec.p2p if spec else None) or "measure",
        gpus=_declared_gpus(spec),
        wired=None if ways is None else [pair for pair, way in ways.items() if way == "NV"],
        copies=copies,
    )
    status, reasons = judge_host(verdicts, len(answer.gpus), demand)
    troubles = list(_troubles(answer))
    status = gravest([status, *(gravity for gravity, _ in troubles)])
    return HostFound(
        host=host,
        status=status,
        level=_level(answer, status, copies=copies),
        needs_reboot=answer.needs_reboot,
        predicted_nccl_transport=predicted_transport(
            ways,
            {pair for pair, verdict in verdicts.items() if verdict not in REFUSED},
            gpus=len(answer.gpus),
            processor=answer.processor,
        ),
        gpus=answer.gpus,
        pairs=answer.pairs,
        reasons=(*(text for _, text in troubles), *reasons),
    )


def _level(answer: Answer, status: str, *, copies: bool) -> str | None:
    """Name the rung that was reached: where it failed, or else where no pair was left out."""
    if status == UNKNOWN and not answer.gpus:
        return None
    if not copies:
        return "L0"
    if any(STATUS_OF[pair.verdict] == FAIL for pair in answer.pairs):
        return "L1"
    return "L0" if any(pair.verdict in _LEFT_OUT for pair in answer.pairs) else "L1"


def _declared_gpus(spec: RigSpec | None) -> int | None:
    expected = spec.gpus if spec else None
    if expected is None:
        return None
    counts = (expected.total, sum(count for _, count in expected.models), len(expected.uuids))
    return max((count for count in counts if count), default=None)


def _troubles(answer: Answer) -> Iterator[tuple[str, str]]:
    for trouble in answer.troubles:
        words = _WORDS.get(trouble.kind, "{}").format(trouble.message)
        yield _STATUS_OF_TROUBLE.get(trouble.kind, UNKNOWN), words
    seen = {gpu.address for gpu in answer.gpus}
    unseen = [address for address in answer.driven if address not in seen]
    if unseen and answer.gpus:
        yield FAIL, f"CUDA does not see {', '.join(unseen)}, which NVIDIA's driver is bound to"
    elif answer.on_bus and not answer.gpus:
        yield UNKNOWN, f"{answer.on_bus} NVIDIA cards are on the bus, and CUDA sees none of them"
