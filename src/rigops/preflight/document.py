"""Results of preflight, and the document rigops.preflight/1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import SKIPPED, gravest

if TYPE_CHECKING:
    from rigops.errors import HostError

SCHEMA = "rigops.preflight/1"
NOT_PROVEN = "not proven"


@dataclass(frozen=True)
class GpuSeen:
    address: str
    name: str


@dataclass(frozen=True)
class PairFound:
    source: str  # PCI addresses
    target: str
    verdict: str
    level: str
    gb_per_s: float | None = None
    both_ways_gb_per_s: float | None = None
    staged_gb_per_s: float | None = None
    latency_us: float | None = None
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "from": self.source,
            "to": self.target,
            "verdict": self.verdict,
            "level": self.level,
            "gb_per_s": self.gb_per_s,
            "both_ways_gb_per_s": self.both_ways_gb_per_s,
            "staged_gb_per_s": self.staged_gb_per_s,
            "latency_us": self.latency_us,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, kw_only=True)
class HostFound:
    host: str
    status: str
    level: str | None = None  # the rung that was reached; None: not even L0
    needs_reboot: bool = False
    predicted_nccl_transport: str | None = None
    gpus: tuple[GpuSeen, ...] = ()
    pairs: tuple[PairFound, ...] = ()
    reasons: tuple[str, ...] = ()  # for the status, beyond the verdicts of pairs
    error: HostError | None = None

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "host": self.host,
            "status": self.status,
            "level": self.level,
            "needs_reboot": self.needs_reboot,
            "predicted_nccl_transport": self.predicted_nccl_transport,
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "pairs": [pair.as_json() for pair in self.pairs],
            "collectives": NOT_PROVEN,
            "reasons": list(self.reasons),
        }
        if self.error is not None:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document


def overall(hosts: Sequence[HostFound]) -> str:
    return gravest(host.status for host in hosts) if hosts else SKIPPED


def document(hosts: Sequence[HostFound]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "status": overall(hosts),
        "hosts": [host.as_json() for host in hosts],
    }
