"""The last preflight of a host: the state that it proved, or the failure that revokes all proofs.

Baseline, lockfile and capture are views of the proven state.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import NAME, Time, document, parse, to_json

if TYPE_CHECKING:
    from rigops.probe.sections.own_modules import OwnModules

_SCHEMA = "rigops.proven/1"
STOCK: Final = "stock"
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
    modules: str = STOCK  # or own: and the digest of the owner's tree
    build_id: str = ""  # of the owner's nvidia module

    def key(self) -> str:
        """Digest of what the proof depends on; while it is the same, preflight need not run again.

        The order of kernel arguments counts, since later ones override earlier ones.
        """
        parts: dict[str, object] = {
            "driver": asdict(self.driver),
            "kernel": self.kernel,
            "command_line": self.command_line,
            "gpus": sorted((gpu.uuid, gpu.address) for gpu in self.gpus),
            "bios": asdict(self.bios),
        }
        if self.modules != STOCK:
            parts["modules"] = [self.modules, self.build_id]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def reach(self) -> str:
        """How far it went. Records of old have a level although no pair was tried."""
        nothing = no_access([pair.verdict for pair in self.pairs])
        return nothing or (f"level {self.level}" if self.pairs else "no pair of GPUs")

    def to_json(self) -> str:
        fields = {"schema": _SCHEMA, **to_json(self)}
        if self.modules == STOCK:  # as in documents of before
            del fields["modules"], fields["build_id"]
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Proven:
        return parse(cls, text, schema=_SCHEMA, place="the proven record")


def modules_of(there: OwnModules | None) -> tuple[str, str]:
    """The set that a boot chose, and the build ID of its nvidia module where it is the owner's."""
    if there is None or there.chosen != "own":
        return STOCK, ""
    return f"own:{there.digest}", there.loaded.get("nvidia", "")


def no_access(verdicts: Collection[str]) -> str:
    """In words, where the driver grants no pair anything; else empty."""
    if not verdicts or set(verdicts) != {_NO_ACCESS}:
        return ""
    return f"no pair has peer access ({len(verdicts)} of {len(verdicts)})"


BEGUN: Final = "begun"  # of a pair: copies were about to be made

_FAILED_SCHEMA: Final = "rigops.failed_proof/1"


@dataclass(frozen=True, kw_only=True)
class FailedProof:
    """`pairs`: those that failed, or were about to be tried. `versions`: as in the journal.

    `failure`: in a phrase. `stopgap`: what to declare until a preflight passes.
    """

    at: Time
    versions: Mapping[str, str]
    pairs: tuple[Pair, ...]
    reasons: tuple[str, ...] = ()
    failure: str = ""
    stopgap: str = ""

    @property
    def has_ended(self) -> bool:
        return all(pair.verdict != BEGUN for pair in self.pairs)

    def to_json(self) -> str:
        return document(_FAILED_SCHEMA, self)

    @classmethod
    def from_json(cls, text: str) -> FailedProof:
        return parse(cls, text, schema=_FAILED_SCHEMA, place="the record of a failed preflight")
