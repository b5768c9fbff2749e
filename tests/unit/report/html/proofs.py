"""Results of preflight for pages."""

from __future__ import annotations

from itertools import permutations

from rigops.errors import HostError
from rigops.preflight.changes import Change, LinkSeen
from rigops.preflight.found import CollectivesFound, GpuSeen, HostFound, Machine, PairFound

CARDS = tuple(f"0000:{bus}:00.0" for bus in ("01", "21", "41", "61", "81", "a1", "c1", "e1"))
GPUS = tuple(GpuSeen(address, "NVIDIA GeForce RTX 4090") for address in CARDS)
MACHINE = Machine("ROME2D32GM-2T", "6.1.0-31-amd64", "550.54.15")


def _pair(one: str, other: str) -> PairFound:
    is_near = (one < "0000:80") == (other < "0000:80")
    rate = 26.4 if is_near else 18.2
    return PairFound(
        *(one, other, "ok", "L5", rate, rate * 1.8, 11.0, 1.4),
        link="NODE" if is_near else "SYS",
    )


PROVEN = HostFound(
    host="epyc",
    status="ok",
    at="2026-01-31T18:00:00Z",
    level="L5",
    predicted_nccl_transport="P2P",
    machine=MACHINE,
    gpus=GPUS,
    pairs=tuple(_pair(*pair) for pair in permutations(CARDS, 2)),
    collectives=CollectivesFound(
        verdict="proven", version="2.21.5", p2p_gb_per_s=19.5, control_gb_per_s=7.1
    ),
    links=tuple(LinkSeen(address, 16.0, 16) for address in CARDS),
)
HUNG = HostFound(
    host="ripper",
    status="fail",
    at="2026-01-31T18:05:00Z",
    level="L1",
    needs_reboot=True,
    machine=MACHINE,
    gpus=GPUS[:3],
    pairs=(
        PairFound(CARDS[0], CARDS[1], "hang", "L1", evidence=("copy of 4 KiB: no end in 20 s",)),
        *(
            PairFound(one, other, "skipped", "L0", evidence=("not tried after the hang",))
            for one, other in permutations(CARDS[:3], 2)
            if (one, other) != CARDS[:2]
        ),
    ),
    changes=(Change("xid", "gpu 0000:01:00.0", None, 31, "MMU fault"),),
    reasons=("during the copies: Xid 31",),
)
AWAY = HostFound(
    host="away", status="unknown", error=HostError("timeout", "no answer within 20 s", "is it on?")
)
EVERY = (PROVEN, HUNG, AWAY)
