"""The operation that writes an ownership record anew where it is lost, damaged or incomplete."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.atomic_file import SHELL
from rigops.concerns.lost_record import described, key_maker, left, lost_record
from rigops.facts.sections import RigopsState
from rigops.ownership.file_work import noted
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blocked
from rigops.plan.context import announce, notice, plan_of
from rigops.probe.sections.rigops_state import RECORD, STATE

CONCERN: Final = "ownership"  # of no concern's own: every deploy begins with it


@operation()
def record_rebuilt() -> Generator[StringCommand, None, None]:
    """Have a record of what rigops owns, before any other operation reads it."""
    state = host.get_fact(RigopsState)
    lost = None if state.rebuilt else lost_record(state)
    if state.rebuilt or lost:
        found = left(state, lost.rebuilt if lost else Ownership.from_state(state))
        for path in (one for one in found if key_maker(one) is None):
            text = "rigops did not record it, and nothing says that rigops made it: left alone"
            notice(host, CONCERN, f"{path}: {text}")
    if lost and lost.is_to_rebuild:
        fix = "`rigops apply` rebuilds it"
        yield blocked(host, CONCERN, f"the ownership record {RECORD} is {lost.loss}: {fix}")
    elif state.rebuilt and (host.state.is_executing or not _is_announced()):
        owned = Ownership.from_state(state)
        announce(host, Change(CONCERN, "file", RECORD, f"{state.rebuilt}\n", described(owned)))
        yield StringCommand("sh", "-s", _stdin=_script(owned, state.rebuilt))
    else:
        host.noop("the ownership record is as it should be")


def _is_announced() -> bool:
    """By the deploy of an earlier concern, which is going to write it for all."""
    return any(one.subject == RECORD for one in plan_of(host).changes)


def _script(owned: Ownership, loss: str) -> str:
    """A damaged record stays beside the new one."""
    aside = f'[ ! -e {RECORD} ] || mv -f {RECORD} "{RECORD}.{loss}-$(date +%s)"\n'
    return f"""\
set -eu
trap '' HUP PIPE
umask 022
{SHELL}main() {{
mkdir -p {STATE}
{aside if loss == "damaged" else ""}{noted(RECORD, owned.to_json().encode())}
}}
main
"""
