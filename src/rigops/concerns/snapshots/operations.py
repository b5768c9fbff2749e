"""The program that takes, prunes and sends snapshots, its settings, its timers, and its key."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyinfra.context import host

from rigops import json_fields
from rigops.backup.host.snapshot_settings import SETTINGS
from rigops.concerns.snapshots import NAME as CONCERN
from rigops.concerns.snapshots import decide, record
from rigops.concerns.snapshots.decide import KNOWN_HOSTS, SCRUB_UNIT, UNIT
from rigops.concerns.snapshots.facts import SnapshotsHostFact
from rigops.concerns.snapshots.record import KEY, PUBLIC_KEY, SnapshotsState
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import installed_at
from rigops.ownership.owned_files import (
    owned_file,
    owned_key,
    owned_program,
    owned_unit,
    undo_undeclared,
)
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blockers
from rigops.plan.context import headline, next_step, notice, plan_of
from rigops.probe.sections.rigops_state import STATE
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Snapshots

PROGRAM: Final = installed_at(CONCERN)

_KEY_FILES: Final = (KEY, PUBLIC_KEY, KNOWN_HOSTS)
# Systemd's notes of timers that make up for what they missed.
_LAST_RUNS: Final = tuple(
    f"/var/lib/systemd/timers/stamp-{one}.timer" for one in (UNIT, SCRUB_UNIT)
)
_ABSENCES: Final[Mapping[str, str]] = {
    KEY: shlex.join(("rm", "-f", PUBLIC_KEY, KNOWN_HOSTS)),
    SETTINGS: f"{shlex.join(('rm', '-f', *_KEY_FILES, record.PATH, *_LAST_RUNS))}\n"
    "rmdir /etc/rigops 2>/dev/null || :",
}


def take_snapshots(declared: Snapshots) -> None:
    """Have these subvolumes taken, pruned and sent. With a blocker nothing is changed."""
    found = host.get_fact(SnapshotsHostFact)
    reasons = tuple(decide.blockers(declared, found))
    if reasons:
        blockers(name="Blockers", concern=CONCERN, reasons=reasons)
        return
    state = json_fields.readable(record.parse, host.get_fact(RigopsState).records.get(record.PATH))
    for text in decide.notices(declared, found, state):
        notice(host, CONCERN, text)
    owned_program(name=PROGRAM, concern=CONCERN, program=CONCERN)
    owned_file(
        name=SETTINGS,
        concern=CONCERN,
        path=SETTINGS,
        content=decide.settings(host.name, declared),
    )
    if decide.is_remote(declared.send_to):
        owned_key(
            name="Key",
            concern=CONCERN,
            path=KEY,
            public_key=found.public_key,
            touches=frozenset({SnapshotsHostFact}),
        )
    _have_timer(UNIT, program=PROGRAM, state=STATE)
    if not found.scrub_timers:
        _have_timer(SCRUB_UNIT, program=PROGRAM, state=STATE)
    if declared.send_to and decide.is_remote(declared.send_to) and not _has_access(state):
        text = decide.setup_notice(host.name, declared.send_to, found.public_key)
        next_step(host, CONCERN, text)
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN, effects=_ABSENCES)
    if any(change.concern == CONCERN for change in plan_of(host).changes):
        headline(host, CONCERN, f"snapshots of {', '.join(declared.subvolumes)}")


def snapshots_undeclared(*, declared: bool) -> None:
    """`declared`: as nothing, which needs no further consent."""
    owned = Ownership.from_state(host.get_fact(RigopsState)).paths_of(CONCERN)
    if owned:
        text = host.get_fact(RigopsState).records.get(record.PATH)
        state = json_fields.readable(record.parse, text)
        notice(host, CONCERN, decide.undone_notice(tuple(state.subvolumes) if state else ()))
    undo_undeclared(
        name="Undo undeclared settings", concern=CONCERN, declared=declared, effects=_ABSENCES
    )


def _has_access(state: SnapshotsState | None) -> bool:
    return bool(state and state.target and state.target.state == "present")


def _have_timer(unit: str, **values: str) -> None:
    """A service, and the timer that starts it."""
    path = f"{SYSTEM_UNITS}{unit}.service"
    content = render(f"{unit}.service.j2", **values)
    owned_file(name=path, concern=CONCERN, path=path, content=content)
    timer = f"{unit}.timer"
    owned_unit(name=timer, concern=CONCERN, unit=timer, content=render(f"{timer}.j2"))
