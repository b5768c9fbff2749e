from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.inventory.spec.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.inventory.spec import RigSpec


@dataclass(frozen=True)
class Placed:
    """A value with its file and line."""

    value: object
    file: str
    line: int | None


@dataclass(frozen=True)
class InventoryHost:
    name: str
    groups: tuple[str, ...]
    placed: Mapping[str, Placed]
    spec: RigSpec

    @property
    def data(self) -> dict[str, object]:
        return {key: placed.value for key, placed in self.placed.items()}

    @property
    def connector(self) -> str:
        """The pyinfra connector: ssh, local, docker and so on."""
        if not self.name.startswith("@"):
            return "ssh"
        return self.name[1:].split("/", 1)[0]


@dataclass(frozen=True)
class Inventory:
    path: Path
    digest: str  # of every file that was read; for the journal
    hosts: tuple[InventoryHost, ...]
    warnings: tuple[str, ...]

    def host(self, name: str) -> InventoryHost | None:
        return next((host for host in self.hosts if host.name == name), None)

    def nearest(self, name: str) -> str:
        return did_you_mean(name, [host.name for host in self.hosts])
