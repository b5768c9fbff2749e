"""What the inventory declares for the hosts of this run, read only where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec


@dataclass(frozen=True)
class InventorySpecs:
    by_host: Callable[[], Mapping[str, RigSpec]]
