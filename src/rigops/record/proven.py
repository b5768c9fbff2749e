"""The state of a host that passed preflight. Baseline, lockfile and capture are views of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops import json_fields
from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.json_fields import Fields

_SCHEMA = "rigops.proven/1"


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

    @classmethod
    def from_fields(cls, fields: Fields) -> ProvenGpu:
        return cls(
            uuid=fields.text("uuid"),
            address=fields.text("address"),
            name=fields.text("name"),
            power_limit_watts=fields.number_or_none("power_limit_watts"),
        )


@dataclass(frozen=True)
class Pair:
    """What preflight found between two GPUs, in one direction."""

    source: str  # PCI addresses
    target: str
    verdict: str
    gb_per_s: float | None

    @classmethod
    def from_fields(cls, fields: Fields) -> Pair:
        return cls(
            source=fields.text("from"),
            target=fields.text("to"),
            verdict=fields.text("verdict"),
            gb_per_s=fields.number_or_none("gb_per_s"),
        )

    def as_json(self) -> dict[str, object]:
        return {
            "from": self.source,
            "to": self.target,
            "verdict": self.verdict,
            "gb_per_s": self.gb_per_s,
        }


@dataclass(frozen=True, kw_only=True)
class Proven:
    host: str
    at: str  # RFC 3339, UTC
    rigops: str
    inventory_digest: str
    driver: Driver
    packages: Mapping[str, str]
    kernel: str
    command_line: tuple[str, ...]
    bios: Bios
    gpus: tuple[ProvenGpu, ...]
    level: str  # the highest level of preflight that passed
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

    def to_json(self) -> str:
        document = {
            "schema": _SCHEMA,
            "host": self.host,
            "at": self.at,
            "rigops": self.rigops,
            "inventory_digest": self.inventory_digest,
            "driver": asdict(self.driver),
            "packages": dict(sorted(self.packages.items())),
            "kernel": self.kernel,
            "command_line": list(self.command_line),
            "bios": asdict(self.bios),
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "level": self.level,
            "pairs": [pair.as_json() for pair in self.pairs],
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Proven:
        fields = json_fields.parse(text, place="the proven record")
        fields.require_schema(_SCHEMA)
        driver = fields.nested("driver")
        bios = fields.nested("bios")
        return cls(
            host=fields.text("host"),
            at=fields.time("at"),
            rigops=fields.text("rigops"),
            inventory_digest=fields.text("inventory_digest"),
            driver=Driver(driver.text("version"), driver.text("flavor")),
            packages=fields.text_map("packages"),
            kernel=fields.text("kernel"),
            command_line=fields.texts("command_line"),
            bios=Bios(bios.text("vendor"), bios.text("version")),
            gpus=tuple(ProvenGpu.from_fields(gpu) for gpu in fields.each("gpus")),
            level=fields.text("level"),
            pairs=tuple(Pair.from_fields(pair) for pair in fields.each("pairs")),
        )
