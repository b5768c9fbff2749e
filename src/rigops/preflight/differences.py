"""What a container has otherwise than its host. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rigops.hostside.p2p.verdict import OK, REFUSED, WARN
from rigops.preflight.found import Difference
from rigops.preflight.payload import PayloadReport

_SHARED_MEMORY: Final = 1 << 30  # bytes that collectives of a few cards want
_MOST_NAMED: Final = 2


def differences(outside: PayloadReport, inside: PayloadReport) -> Iterator[Difference]:
    seen = {gpu.address for gpu in inside.gpus}
    if missing := [gpu.address for gpu in outside.gpus if gpu.address not in seen]:
        yield Difference(
            "cards",
            WARN,
            f"the container lacks {len(missing)} of {len(outside.gpus)} GPUs: "
            f"{', '.join(missing)}; fix: if it should have them, start it with them; doctor's "
            "container.cut says whether it had",
        )
    if lost := _lost_pairs(outside, inside):
        named = ", ".join(f"{source} to {target}" for source, target in lost[:_MOST_NAMED])
        yield Difference(
            "p2p",
            WARN,
            f"P2P that the host has is refused in the container: {named}"
            + (f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""),
        )
    if len(inside.gpus) > 1 and (inside.shared_memory or 0) < _SHARED_MEMORY:
        has = f"{(inside.shared_memory or 0) >> 20} MiB"
        yield Difference(
            "shared_memory",
            WARN,
            f"the container has {has} of /dev/shm, too little for collectives; fix: "
            "start it with --shm-size=8g or --ipc=host",
        )
    versions = outside.collectives.version, inside.collectives.version
    if all(versions) and versions[0] != versions[1]:
        text = f"the container has NCCL {versions[1]} and the host {versions[0]}"
        yield Difference("nccl", OK, text)


def _lost_pairs(outside: PayloadReport, inside: PayloadReport) -> list[tuple[str, str]]:
    granted = {(pair.source, pair.target) for pair in outside.pairs if pair.verdict not in REFUSED}
    return [
        (pair.source, pair.target)
        for pair in inside.pairs
        if pair.verdict in REFUSED and (pair.source, pair.target) in granted
    ]
