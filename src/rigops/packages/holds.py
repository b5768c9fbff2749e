"""Packages that are held as they are, by apt's own marks. Only our own holds are ever released."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.errors import RigopsError
from rigops.facts.sections import GpuPackages, RigopsState
from rigops.ownership import Ownership
from rigops.ownership.file_work import Effect, FileWork, noted, script
from rigops.packages.facts import Dpkg
from rigops.packages.installing import waiting
from rigops.packages.records import HOLDS_RECORD, Holds
from rigops.plan.blocked import blocked
from rigops.plan.change import Change
from rigops.plan.context import announce, may_undo, plan_log
from rigops.plan.streaming import StreamingCommand
from rigops.probe.package_names import is_kernel_meta

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from pyinfra.api.host import Host

    from rigops.packages.dpkg import DpkgState

SUBJECT: Final = "packages that are held"

_LOCK_WAIT_S: Final = 600
_SLOW_S: Final = _LOCK_WAIT_S + 60


def kernel_metas(host: Host) -> tuple[str, ...]:
    """The packages that bring the host its newer kernels, as far as they are installed."""
    found = host.get_fact(GpuPackages).packages
    return tuple(
        sorted({one.name for one in found if one.is_installed and is_kernel_meta(one.name)})
    )


@operation()
def held(
    *, concern: str, names: Collection[str], declared: bool = True
) -> Generator[StringCommand, None, None]:
    """Hold these packages, and release what this concern held before and does not name any more.

    A package that somebody else holds is held, and stays so when it is not named any more.

    + concern: the deploy that wants it; all of its names come in one call
    + names: packages that are installed by then
    + declared: whether anything of the concern is declared; else releasing needs consent of its own
    """
    try:
        record = Holds.parse(host.get_fact(RigopsState).records.get(HOLDS_RECORD))
    except RigopsError as error:
        said = "; ".join(f"{one.message}: {one.fix}" for one in error.problems)
        yield blocked(host, concern, said)
        return
    ending = [name for name in record.of(concern) if name not in names]
    if ending and not declared and not may_undo(host, concern, [*_files(concern), *ending]):
        host.noop(f"{', '.join(ending)} stay held: releasing them was not confirmed")
        ending = []
    if not names and not ending:
        host.noop("nothing is to be held or released")
        return
    if not ending and _are_held(names):
        host.noop(f"{', '.join(sorted(names))}: held")
        return
    state: DpkgState = host.get_fact(Dpkg, names=tuple(sorted({*names, *ending})))
    if state.manager != "apt":
        known = state.manager or "no package manager that rigops knows"
        yield blocked(host, concern, f"packages are held with apt only, and this host has {known}")
        return
    coming = [name for name in sorted(names) if not _is_held(state, name)]
    going = [name for name in ending if _is_held(state, name)]
    if not coming and not ending:
        host.noop(f"{', '.join(sorted(names))}: held")
        return
    before, after = (_listed(names) for names in (ending, coming))
    announce(host, Change(concern, "hold", SUBJECT, before, after))
    marks = _command(record, coming, concern, going, ending)
    # apt-mark itself does not wait for whoever works on packages.
    yield StreamingCommand("sh", "-s", _stdin=waiting(_LOCK_WAIT_S), _timeout=_SLOW_S)
    yield marks


def _command(
    record: Holds, coming: list[str], concern: str, going: list[str], ending: list[str]
) -> StringCommand:
    """The record has every hold of ours at every moment."""
    having = record.having(coming, concern)
    effects = [_mark("hold", coming), _mark("unhold", going)]
    if ending:
        effects.append(noted(HOLDS_RECORD, having.without(ending).to_json().encode()))
    work = FileWork(
        before=Ownership.of(host.get_fact(RigopsState)),
        notes={HOLDS_RECORD: having.to_json().encode()} if coming else {},
        anew=tuple(Effect(effect) for effect in effects if effect),
    )
    return StringCommand("sh", "-s", _stdin=script(work))


def _are_held(names: Collection[str]) -> bool:
    """What a run looks at anyway may tell it: then nothing more is asked."""
    every = host.get_fact(GpuPackages).packages
    return {one.name for one in every if one.is_installed and one.is_held}.issuperset(names)


def _mark(how: str, names: list[str]) -> str:
    return shlex.join(("apt-mark", "-q", how, *names)) if names else ""


def _is_held(state: DpkgState, name: str) -> bool:
    entry = state.get(name)
    return entry is not None and entry.held


def _listed(names: list[str]) -> str | None:
    return "".join(f"{name}\n" for name in names) or None


def _files(concern: str) -> list[str]:
    """What else of it was said to go: one consent is for all of a concern."""
    return list(plan_log(host).undeclared.get(concern, ()))
