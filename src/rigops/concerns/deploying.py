"""Runs one concern on the host of pyinfra's context, for rigops and for plain pyinfra.

A run of plain pyinfra needs root, and its host's journal has it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator
from dataclasses import field, replace
from functools import cache
from typing import Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.concern import InventorySpecs
from rigops.concerns.driver_modules.declared_tree import own_tree
from rigops.concerns.driver_modules.tree import Tree
from rigops.concerns.journal_values import values_of
from rigops.concerns.modules_version import ModulesVersion
from rigops.concerns.registry import concern, read, self_checks
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.facts.sections import RigopsState
from rigops.inventory.spec import RigSpec
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Plan
from rigops.plan.commands import blockers
from rigops.plan.context import context_of, plan_of, provide, provided
from rigops.record import journal
from rigops.record.journal import PYINFRA, Run
from rigops.record.shell import adding

NO_ROOT: Final = "rigops deploys need root: add --sudo"


class IsRoot(FactBase[bool]):
    def command(self) -> str:  # type: ignore[mutable-override]  # as all of pyinfra's do
        return "id -u"

    def process(self, output: list[str]) -> bool:
        return output == ["0"]


@dataclass(frozen=True)
class _Beginning:
    at: str = field(default_factory=journal.now)
    run: str = field(default_factory=lambda: str(uuid.uuid4()))
    seconds: float = field(default_factory=time.monotonic)


_this_run = cache(_Beginning)


@operation()
def recorded(*, concern: str) -> Generator[StringCommand, None, None]:
    """Have the run in the host's journal, with all that it has changed up to this concern.

    A later line of the same run takes the place of an earlier one.
    """
    plan, begun = plan_of(host), _this_run()
    if concern not in plan.sizes:
        host.noop("nothing was changed")
        return
    line = json.dumps(_entry(plan, begun).as_json())
    yield StringCommand(*(QuoteString(word) for word in adding(line)))


def _entry(plan: Plan, begun: _Beginning) -> Run:
    """Pyinfra asks each operation twice, when it plans and when it carries it out."""
    once = replace(plan, changes=tuple(dict.fromkeys(plan.changes)))
    return Run(
        host=host.name,
        at=begun.at,
        inventory_digest="",
        outcome="changed",
        seconds=round(time.monotonic() - begun.seconds, 3),
        versions={},
        preflight=None,
        command=PYINFRA,
        changes=once.meaning,
        run=begun.run,
        who=journal.who(),
        values=values_of(once),
    )


def deploy(name: str) -> None:
    run, has_engine = concern(name).deploy, context_of(host).has_engine
    if run is not None:
        spec = _spec(host)
        inventory = host.inventory
        provide(host, InventorySpecs(lambda: {one.name: _spec(one) for one in inventory}))
        provide(host, self_checks(spec))
        if spec.driver_modules is not None:
            tree = own_tree(host, spec)
            provide(host, ModulesVersion(tree.version if isinstance(tree, Tree) else ""))
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
