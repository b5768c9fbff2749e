"""Basic settings of every rig: limits of processes, NCCL's settings.

With a blocker nothing of the concern is changed: neither added nor undone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pyinfra.context import host

from rigops.concerns.base import decide
from rigops.concerns.base.decide import absences, plan_limits
from rigops.concerns.base.facts import LimitSurroundings
from rigops.concerns.base.limits import LOGINS, SERVICES, LimitPlan
from rigops.facts.sections import Limits, Nccl, RigopsState
from rigops.ownership.owned_files import owned_file, undo_undeclared
from rigops.ownership.owned_lines import (
    absence,
    companion,
    owned_lines,
    read_lines_file,
    show_lines_change,
)
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blockers
from rigops.plan.context import headline, notice, plan_of, wanted_paths

if TYPE_CHECKING:
    from rigops.inventory.spec import model

CONCERN: Final = "base"

_LIMITS: Final = frozenset({decide.LOGIND, LOGINS, SERVICES, decide.SHM_PATH})
_NCCL: Final = companion(decide.NCCL_CONF)


def base(*, limits: model.Limits | None, nccl: tuple[tuple[str, str], ...] | None) -> None:
    """Have these limits and lines of nccl.conf; None is undeclared."""
    owned = Ownership.from_state(host.get_fact(RigopsState)).paths_of(CONCERN)
    before = read_lines_file(host, decide.NCCL_CONF).parted.block if nccl or _NCCL in owned else ""
    wanted = LimitPlan()
    if limits is not None:
        found, around = host.get_fact(Limits), host.get_fact(LimitSurroundings)
        units = host.get_fact(RigopsState).units
        wanted = plan_limits(limits, found, around, owned=owned, units=units)
    lines, unfit = _lines(nccl, owned)
    if reasons := wanted.blockers + unfit:
        blockers(name="Blockers", concern=CONCERN, reasons=reasons)
        return
    for text in wanted.notices:
        notice(host, CONCERN, text)
    for file in wanted.files:
        owned_file(
            name=file.path,
            concern=CONCERN,
            path=file.path,
            content=file.content,
            effect=file.effect,
            unit=file.unit,
            live=file.live,
            touches=frozenset({Limits}),
        )
    if lines:
        _notice_earlier_settings(nccl or (), lines)
        owned_lines(
            name=decide.NCCL_CONF,
            concern=CONCERN,
            path=decide.NCCL_CONF,
            ours=lines,
            touches=frozenset({Nccl}),
        )
    _undo(owned, is_declared=limits is not None or nccl is not None)
    changed = {change.subject for change in plan_of(host).changes if change.concern == CONCERN}
    if not changed.isdisjoint(_LIMITS):
        headline(host, CONCERN, "limits")
    if not changed.isdisjoint({decide.NCCL_CONF, _NCCL}):
        headline(host, CONCERN, decide.nccl_headline(before, lines))
    if not changed.isdisjoint({LOGINS, SERVICES}):
        text = "logins and services that run now keep their limits until they are restarted"
        notice(host, CONCERN, text)


def _lines(
    declared: tuple[tuple[str, str], ...] | None, owned: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of nccl.conf to own, and what blocks that."""
    if not declared and _NCCL not in owned:
        return (), ()
    file = read_lines_file(host, decide.NCCL_CONF)
    if file.unfit:
        return (), (file.unfit,)
    found = decide.nccl_lines(declared or (), file.parted.foreign)
    conflicts = tuple(
        f"{decide.NCCL_CONF} has {line}, which rigops did not write and which differs "
        "from the declaration: delete that line, or declare the same"
        for line in found.conflicts
    )
    return found.ours, conflicts


def _undo(owned: Collection[str], *, is_declared: bool) -> None:
    gone = set(owned) - wanted_paths(host, CONCERN)
    effects: dict[str, str] = {}
    if gone & _LIMITS:
        effects |= absences(host.get_fact(LimitSurroundings))
    if _NCCL in gone:
        effects[_NCCL] = absence(host, CONCERN, decide.NCCL_CONF)  # it may have to stay
    undo_undeclared(
        name="Undo undeclared settings", concern=CONCERN, declared=is_declared, effects=effects
    )
    if _NCCL in gone:
        show_lines_change(host, decide.NCCL_CONF)


def _notice_earlier_settings(declared: tuple[tuple[str, str], ...], ours: tuple[str, ...]) -> None:
    """Other places that NCCL reads first. Not repeated where our lines are in place."""
    if read_lines_file(host, decide.NCCL_CONF).has(ours):
        return
    wanted = dict(declared)
    for one in host.get_fact(Nccl).settings:
        if one.file != decide.NCCL_CONF and wanted.get(one.name, one.value) != one.value:
            notice(host, CONCERN, f"{one.file} line {one.number} overrides it: {one.line}")
