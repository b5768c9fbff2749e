"""What every rig needs before its GPUs: limits of processes, NCCL's settings, whom to tell.

Where anything stands in the way, nothing of the concern is changed: neither added nor taken back.
The state directory comes with the first record of something owned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyinfra.context import host

from rigops import nccl_conf
from rigops.facts.limit_surroundings import LimitSurroundings
from rigops.facts.sections import Limits, Nccl, RigopsState
from rigops.limits import ipc, logins, processes, shared_memory
from rigops.limits.plan import absences, plan
from rigops.limits.wanted import Wanted
from rigops.operations import notify as whom_to_tell
from rigops.operations.change import notice, story
from rigops.operations.obstacles import obstacles
from rigops.operations.owned_files import owned_file, taken_back
from rigops.operations.owned_lines import absence, owned_lines, read_lines_file, tell_of_the_file
from rigops.operations.take_steps import ownership
from rigops.owned.lines import companion

if TYPE_CHECKING:
    from collections.abc import Collection

    from rigops.limits.wanted import Held
    from rigops.spec import model

CONCERN: Final = "base"

_LIMITS: Final = frozenset({ipc.PATH, logins.PATH, processes.PATH, shared_memory.PATH})
_AT_A_START: Final = frozenset({logins.PATH, processes.PATH})
_NCCL: Final = companion(nccl_conf.PATH)


@dataclass(frozen=True)
class _Lines:
    """What is to stand in nccl.conf as ours, and why it cannot."""

    ours: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


def base(
    *,
    limits: model.Limits | None,
    nccl: tuple[tuple[str, str], ...] | None,
    notify: str | None = None,
) -> None:
    """Have these limits, these lines of nccl.conf and this to be told; None is not declared."""
    files = ownership(host.get_fact(RigopsState)).files
    owned = {path for path, file in files.items() if file.concern == CONCERN}
    wanted = Wanted() if limits is None else _limits(limits, owned)
    lines = _lines(nccl, owned)
    reasons = wanted.obstacles + lines.obstacles
    if reasons:
        obstacles(name="What stands in the way", concern=CONCERN, reasons=reasons)
        return
    for text in wanted.notices:
        notice(host, CONCERN, text)
    for held in wanted.files:
        _have(held)
    if lines.ours:
        _tell_of_rivals(nccl or (), lines.ours)
        owned_lines(
            name=nccl_conf.PATH,
            concern=CONCERN,
            path=nccl_conf.PATH,
            ours=lines.ours,
            touches=frozenset({Nccl}),
        )
    whom_to_tell.notify(concern=CONCERN, target=notify)
    declared = (limits, nccl, notify)
    _take_back(owned, is_declared=any(one is not None for one in declared))
    _tell_what_follows()


def _have(held: Held) -> None:
    owned_file(
        name=held.path,
        concern=CONCERN,
        path=held.path,
        content=held.content,
        effect=held.effect,
        live=held.live,
        touches=frozenset({Limits}),
    )


def _limits(declared: model.Limits, owned: Collection[str]) -> Wanted:
    around = host.get_fact(LimitSurroundings)
    units = host.get_fact(RigopsState).units
    return plan(declared, host.get_fact(Limits), around, owned=owned, units=units)


def _lines(declared: tuple[tuple[str, str], ...] | None, owned: Collection[str]) -> _Lines:
    if not declared and _NCCL not in owned:
        return _Lines()
    file = read_lines_file(host, nccl_conf.PATH)
    if file.unfit:
        return _Lines(obstacles=(file.unfit,))
    found = nccl_conf.against(declared or (), file.parted.foreign)
    conflicts = tuple(
        f"{nccl_conf.PATH} says {line}, which somebody else wrote and which is not what is "
        "declared: take that line out, or declare the same"
        for line in found.conflicts
    )
    return _Lines(found.ours, conflicts)


def _take_back(owned: Collection[str], *, is_declared: bool) -> None:
    gone = set(owned) - story(host).kept.get(CONCERN, set())
    effects: dict[str, str] = dict(whom_to_tell.ABSENCE)
    if gone & _LIMITS:
        effects |= absences(host.get_fact(LimitSurroundings))
    if _NCCL in gone:
        effects[_NCCL] = absence(host, CONCERN, nccl_conf.PATH)  # it may have to stay
    taken_back(
        name="What is no longer declared", concern=CONCERN, declared=is_declared, effects=effects
    )
    if _NCCL in gone:
        tell_of_the_file(host, nccl_conf.PATH)


def _tell_of_rivals(declared: tuple[tuple[str, str], ...], ours: tuple[str, ...]) -> None:
    """Other places that NCCL reads first. A host that has our lines was told already."""
    if read_lines_file(host, nccl_conf.PATH).has(ours):
        return
    wanted = dict(declared)
    for one in host.get_fact(Nccl).settings:
        if one.file != nccl_conf.PATH and wanted.get(one.name, one.value) != one.value:
            notice(host, CONCERN, f"{one.file} line {one.number} goes before it: {one.line}")


def _tell_what_follows() -> None:
    if _changed() & _AT_A_START:
        text = "logins and services that are there now keep their limits until they start anew"
        notice(host, CONCERN, text)


def _changed() -> set[str]:
    return {change.subject for change in story(host).changes if change.concern == CONCERN}
