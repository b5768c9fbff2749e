"""The state of a host that passed preflight. Baseline, lockfile and capture are views of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops import json_fields
from rigops.json_fields import Fields
from rigops.record.pairs import Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA = "rigops.proven/1"
_PLACE = "the proven record"
_ABSENT = "absent"


@dataclass(frozen=True)
class Driver:
    version: str
    flavor: str

    def __str__(self) -> str:
        return f"{self.version} ({self.flavor})"


@dataclass(frozen=True)
class Bios:
    vendor: str
    version: str

    def __str__(self) -> str:
        return f"{self.vendor} {self.version}"


@dataclass(frozen=True)
class ProvenGpu:
    uuid: str
    address: str
    name: str
    power_limit_watts: float | None  # None: the card does not report one

    def __str__(self) -> str:
        limit = "" if self.power_limit_watts is None else f", {self.power_limit_watts:g} W"
        return f"{self.name} at {self.address}{limit}"


@dataclass(frozen=True)
class Difference:
    field: str
    before: str
    after: str


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

    def to_document(self) -> dict[str, object]:
        return {
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

    def to_json(self) -> str:
        return json.dumps(self.to_document(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Proven:
        return cls._from_fields(json_fields.parse(text, place=_PLACE))

    @classmethod
    def from_document(cls, document: object, *, place: str = _PLACE) -> Proven:
        return cls._from_fields(Fields(document, place=place))

    @classmethod
    def _from_fields(cls, fields: Fields) -> Proven:
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
            gpus=tuple(_gpu(gpu) for gpu in fields.each("gpus")),
            level=fields.text("level"),
            pairs=tuple(Pair.from_fields(pair) for pair in fields.each("pairs")),
        )


def differences(earlier: Proven, later: Proven) -> list[Difference]:
    """Speeds vary from run to run and are not compared."""
    before, after = _described(earlier), _described(later)
    found = [
        Difference(field, before.get(field, _ABSENT), after.get(field, _ABSENT))
        for field in {**before, **after}
        if before.get(field) != after.get(field)
    ]
    same_arguments = sorted(earlier.command_line) == sorted(later.command_line)
    if same_arguments and earlier.command_line != later.command_line:
        before_line, after_line = " ".join(earlier.command_line), " ".join(later.command_line)
        found.append(Difference("order of kernel arguments", before_line, after_line))
    return found


def _described(proven: Proven) -> dict[str, str]:
    described = {
        "driver": str(proven.driver),
        "kernel": proven.kernel,
        "BIOS": str(proven.bios),
    }
    for token in sorted(proven.command_line):
        field = f"kernel argument {token.partition('=')[0]}"
        described[field] = f"{described[field]} {token}" if field in described else token
    for gpu in sorted(proven.gpus, key=lambda gpu: gpu.address):
        described[f"GPU {gpu.uuid}"] = str(gpu)
    for name, version in sorted(proven.packages.items()):
        described[f"package {name}"] = version
    described["preflight level"] = proven.level
    for pair in sorted(proven.pairs, key=lambda pair: (pair.source, pair.target)):
        described[f"P2P {pair.source} to {pair.target}"] = pair.verdict
    return described


def _gpu(fields: Fields) -> ProvenGpu:
    return ProvenGpu(
        uuid=fields.text("uuid"),
        address=fields.text("address"),
        name=fields.text("name"),
        power_limit_watts=fields.number_or_none("power_limit_watts"),
    )
