"""A run of plain pyinfra: it needs root, and its host's journal has it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.journal_values import values_of
from rigops.dataclass import dataclass
from rigops.plan.context import plan_of
from rigops.record import journal
from rigops.record.journal import PYINFRA, Run
from rigops.record.shell import adding

if TYPE_CHECKING:
    from rigops.plan.change import Plan

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
