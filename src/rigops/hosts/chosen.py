"""A host that a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.power import Neighbor
    from rigops.transport import Target


@dataclass(frozen=True)
class Chosen:
    """`spec` is None where no inventory declares anything for it.

    `neighbors`: other hosts of the inventory on its circuits. `digest`: of the inventory.
    """

    name: str
    target: Target
    spec: RigSpec | None
    neighbors: tuple[Neighbor, ...] = ()
    digest: str = ""
