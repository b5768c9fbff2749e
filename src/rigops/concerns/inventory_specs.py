"""The inventory's declarations for the hosts of this run, read only on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec


@dataclass(frozen=True)
class InventorySpecs:
    by_host: Callable[[], Mapping[str, RigSpec]]
