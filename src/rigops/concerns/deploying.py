"""Runs one concern on the host of pyinfra's context, for rigops and for plain pyinfra."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyinfra.context import host

from rigops.concerns.inventory_specs import InventorySpecs
from rigops.concerns.plain_pyinfra import NO_ROOT, IsRoot, recorded
from rigops.concerns.registry import concern, read, self_checks
from rigops.errors import RigopsError
from rigops.facts.sections import RigopsState
from rigops.inventory.spec import RigSpec
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blockers
from rigops.plan.context import context_of, provide, provided

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.inventory import Inventory


def deploy(name: str) -> None:
    run, has_engine = concern(name).deploy, context_of(host).has_engine
    if run is not None:
        spec = _spec(host)
        provide(host, InventorySpecs(partial(_specs, host.inventory)))
        provide(host, self_checks(spec))
        if not has_engine and not host.get_fact(IsRoot):
            blockers(name=NO_ROOT, concern=name, reasons=(NO_ROOT,))
            return
        try:
            Ownership.from_state(host.get_fact(RigopsState))
        except RigopsError as error:
            reasons = tuple(f"{one.message}; {one.fix}" for one in error.problems)
            blockers(name="Ownership record", concern=name, reasons=reasons)
        else:
            run(spec)
            if not has_engine:
                recorded(name="Journal", concern=name)


def _spec(of: Host) -> RigSpec:
    """Rigops provides it; under plain pyinfra the first deploy reads it for all."""
    spec = provided(of, RigSpec)
    if spec is None:
        spec = read(of.data.dict())
        provide(of, spec)
    return spec


def _specs(inventory: Inventory) -> Mapping[str, RigSpec]:
    return {one.name: _spec(one) for one in inventory}
