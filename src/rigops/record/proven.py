"""The state of a host that passed preflight. Baseline, lockfile and capture are views of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, field
from hashlib import sha256
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import NAME, Time, document, parse

_SCHEMA = "rigops.proven/1"
_NO_ACCESS: Final = "not_granted"


@dataclass(frozen=True)
class Driver:
    version: str
    flavor: str


@dataclass(frozen=True)
class Bios:
    vendor: str
    version: str


@dataclass(frozen=True)
class ProvenGpu:
    uuid: str
    address: str
    name: str
    power_limit_watts: float | None  # None: the card does not report one


@dataclass(frozen=True)
class Pair:
    """The result of preflight between two GPUs, in one direction."""

    source: str = field(metadata={NAME: "from"})  # PCI addresses
    target: str = field(metadata={NAME: "to"})
    verdict: str
    gb_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class Proven:
    host: str
    at: Time
    rigops: str
    inventory_digest: str
    driver: Driver
    packages: Mapping[str, str]
    kernel: str
    command_line: tuple[str, ...]
    bios: Bios
    gpus: tuple[ProvenGpu, ...]
    level: str  # the highest level of preflight that passed; empty: no pair could be tried
    pairs: tuple[Pair, ...]

    def key(self) -> str:
        """Digest of what the proof depends on; while it is the same, preflight need not run again.

        The order of kernel arguments counts, since later ones override earlier ones.
        """
        parts = {
            "driver": asdict(self.driver),
            "kernel": self.kernel,
            "command_line": self.command_line,
            "gpus": sorted((gpu.uuid, gpu.address) for gpu in self.gpus),
            "bios": asdict(self.bios),
        }
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def reach(self) -> str:
        """How far it went. Records of old have a level although no pair was tried."""
        nothing = no_access([pair.verdict for pair in self.pairs])
        return nothing or (f"level {self.level}" if self.pairs else "no pair of GPUs")

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    @classmethod
    def from_json(cls, text: str) -> Proven:
        return parse(cls, text, schema=_SCHEMA, place="the proven record")


def no_access(verdicts: Collection[str]) -> str:
    """In words, where the driver grants no pair anything; else empty."""
    if not verdicts or set(verdicts) != {_NO_ACCESS}:
        return ""
    return f"no pair has peer access ({len(verdicts)} of {len(verdicts)})"
