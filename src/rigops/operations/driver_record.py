"""The record of the driver that a host is pinned to: written last, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.sections import RigopsState
from rigops.operations.take_steps import ownership
from rigops.operations.taking_steps import Work, script
from rigops.record import driver as record

if TYPE_CHECKING:
    from collections.abc import Generator

    from rigops.record.driver import PinnedDriver


def recorded() -> PinnedDriver | None:
    return record.pinned(host.get_fact(RigopsState).records.get(record.PATH))


@operation()
def driver_recorded(*, driver: PinnedDriver | None) -> Generator[StringCommand, None, None]:
    """Have this as the record of what is pinned; None: nothing is.

    + driver: as it was resolved
    """
    state = host.get_fact(RigopsState)
    if recorded() == driver:
        host.noop("the record of the driver is as it should be")
        return
    text = record.document(driver) if driver else record.NOTHING
    work = Work(before=ownership(state), notes={record.PATH: text.encode()})
    # No steps like those of files: the engine joins them, and this is to come after their effects.
    yield StringCommand("sh", "-s", _stdin=script(work))
