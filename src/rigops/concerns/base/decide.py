"""From what is declared and what a host has to the files and lines that rigops has to own there.

Of /etc/nccl.conf the first NAME=VALUE line of a name counts, and # begins a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.concerns.base import process_limits, shared_memory
from rigops.concerns.base.limit_files import MADE, LimitPlan, PlannedFile, others

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rigops.concerns.base.facts import HostState
    from rigops.inventory.spec.model import Limits
    from rigops.probe.sections import limits as section
    from rigops.probe.sections.rigops_state import OwnedUnit

LOGIND: Final = "/etc/systemd/logind.conf.d/90-rigops.conf"
# Sessions stay: it reads its settings anew, where systemd 252 has no reload for it.
REREAD_LOGIND: Final = """\
if systemctl is-active --quiet systemd-logind.service; then
    systemctl kill --kill-who=main --signal=HUP systemd-logind.service
fi"""

_KEY: Final = "RemoveIPC"
_WORDS: Final = {
    True: frozenset({"yes", "y", "true", "t", "on", "1"}),
    False: frozenset({"no", "n", "false", "f", "off", "0"}),
}
NCCL_CONF: Final = "/etc/nccl.conf"

_SETTING = re.compile(r"\s*(?P<name>NCCL_[A-Z0-9_]+)\s*=(?P<value>[^#]*)")


def plan_limits(
    declared: Limits,
    found: section.Limits,
    around: HostState,
    *,
    owned: Collection[str] = (),
    units: Mapping[str, OwnedUnit] | None = None,
) -> LimitPlan:
    """`owned`: paths that are rigops' already."""
    if around.systemd is not True:
        why = "was not collected" if around.systemd is None else "does not run here"
        return LimitPlan(blockers=(f"limits are set through systemd, which {why}",))
    wanted = LimitPlan()
    if declared.shm is not None:
        is_owned = shared_memory.PATH in owned
        wanted += shared_memory.sized(
            declared.shm, found, around, is_owned=is_owned, units=units or {}
        )
    bounds = process_limits.bounds(declared)
    if bounds:
        wanted += process_limits.bounded(bounds, found, around)
    if declared.removeipc is not None:
        wanted += remove_ipc(wanted=declared.removeipc, found=found, around=around)
    return wanted


def absences(around: HostState) -> dict[str, str]:
    """For each file, the command that makes its absence count."""
    return {
        process_limits.SERVICES: process_limits.EFFECT,
        LOGIND: REREAD_LOGIND,
        shared_memory.PATH: shared_memory.giving_back(around),
    }


def remove_ipc(*, wanted: bool, found: section.Limits, around: HostState) -> LimitPlan:
    """Whether logind deletes the shared memory of a user who logs out."""

    def means(value: str) -> bool:
        return value.lower() in _WORDS[wanted]

    said = others(around.settings, LOGIND, _KEY)
    if said.already(means):
        return LimitPlan()
    outdoing = said.outdoes(means)
    content = f"{MADE}[Login]\n{_KEY}={'yes' if wanted else 'no'}\n"
    return LimitPlan(
        (PlannedFile(LOGIND, content, REREAD_LOGIND, live=found.remove_ipc in {None, wanted}),),
        (f"{outdoing} as {_KEY}, which overrides what is declared",) if outdoing else (),
    )


@dataclass(frozen=True)
class NcclLines:
    """Declared variables against the lines of somebody else."""

    ours: tuple[str, ...]  # lines to be added by us
    conflicts: tuple[str, ...]  # somebody else's, with another value: ours are not written


def nccl_lines(declared: Iterable[tuple[str, str]], foreign: str) -> NcclLines:
    theirs: dict[str, tuple[str, str]] = {}
    for line in foreign.splitlines():
        shape = _SETTING.match(line)
        if shape:
            theirs.setdefault(shape["name"], (shape["value"].strip(), line.strip()))
    ours: list[str] = []
    conflicts: list[str] = []
    for name, value in declared:
        if name not in theirs:
            ours.append(f"{name}={value}")
        elif theirs[name][0] != value.strip():
            conflicts.append(theirs[name][1])
    return NcclLines(tuple(ours), tuple(conflicts))
