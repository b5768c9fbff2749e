"""Packages that a host has, or has not, and those that apt-mark holds. Complete for apt."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Final

from pyinfra.api.command import StringCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.facts.sections import GpuPackages, RigopsState
from rigops.ownership.file_work import Effect, FileWork, noted
from rigops.ownership.file_work import script as file_work_script
from rigops.ownership.ownership import Ownership
from rigops.packages.apt_simulated import Simulated
from rigops.packages.dpkg import DpkgState, compare
from rigops.packages.facts import AptWould, Dpkg
from rigops.packages.installing import Installing, finishing, script, waiting
from rigops.packages.records import (
    HOLDS_RECORD,
    WORK_RECORD,
    Holds,
    OwnedPackage,
    OwnedPackages,
    PackageWork,
)
from rigops.packages.request import (
    CONFIGURE,
    FINISH,
    PackageRequest,
    blocker,
    not_to_be_configured,
    old_lists,
    other_driver,
    unfinished,
    without_apt,
)
from rigops.plan.change import Change, Package, PackageChanges, Repair
from rigops.plan.commands import StreamingCommand, blocked
from rigops.plan.context import (
    announce,
    announce_packages,
    announce_repair,
    consent_of,
    context_of,
    housekeeping,
    may_undo,
    notice,
    plan_of,
)
from rigops.probe.package_names import is_kernel_meta

HOLDS: Final = "packages that are held"

_PACKAGE_WORK: Final = "the package work of others, or of an earlier run"
_LOCK_WAIT_S: Final = 600
_SLOW_S: Final = _LOCK_WAIT_S + 60
_LONGEST_S: Final = 3 * 3600  # a driver is built for each kernel, on a slow machine


@operation()
def packages(
    *,
    concern: str,
    install: Mapping[str, str | None] | None = None,
    remove: Sequence[str] = (),
    change_held: Collection[str] = (),
    repair: bool = False,
    lock_wait_s: int = 600,
    driver: str = "",
    source: str = "",
    unless: tuple[str, str] | None = None,
) -> Generator[StringCommand, None, None]:
    """Have these packages, exactly in this version where one is given, and not have those.

    + install: versions by name; None is what the sources would install, or what is installed
    + remove: names; their configuration stays
    + change_held: names whose hold may be broken; they are held again afterwards
    + repair: have dpkg first finish what it was interrupted in, without further consent
    + driver: the only version of the NVIDIA driver that may come with it
    + source: a file of sources that is going to be there, for the plan
    + unless: a path, and why nothing is changed where it is there by then
    """
    asked = _Asked(
        concern=concern,
        request=PackageRequest(dict(install or {}), tuple(remove)),
        change_held=frozenset(change_held),
        repair=repair,
        lock_wait_s=lock_wait_s,
        driver=driver,
        source=source,
        unless=unless,
    )
    request = asked.request
    if host.state.is_executing and not request.fault:
        state: DpkgState = host.get_fact(Dpkg, names=request.names)
        if state.holder and not request.is_met_by(state):  # what is read now would soon be wrong
            housekeeping(host, concern, _PACKAGE_WORK)
            yield asked.command(waiting(lock_wait_s))
            state = host.get_fact(Dpkg, names=request.names)
        if _has_begun(host, state):
            housekeeping(host, concern, _PACKAGE_WORK)
            yield asked.command(finishing(lock_wait_s, request.words(state)))
    answer = _answer(host, asked)
    if isinstance(answer, str):
        yield blocked(host, concern, answer)
    elif answer is None:
        host.noop(f"{', '.join(asked.request.names)}: as declared")
    else:
        yield asked.command(script(answer))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    concern: str
    request: PackageRequest
    change_held: frozenset[str]
    repair: bool
    lock_wait_s: int
    driver: str = ""
    source: str = ""
    unless: tuple[str, str] | None = None

    def command(self, text: str) -> StreamingCommand:
        most = 2 * self.lock_wait_s + _LONGEST_S
        return StreamingCommand("sh", "-s", _stdin=text, _timeout=most)


def _answer(host: Host, asked: _Asked) -> Installing | str | None:
    """The work to be done, or its blocker."""
    if asked.request.fault:
        return asked.request.fault
    state: DpkgState = host.get_fact(Dpkg, names=asked.request.names)
    if state.manager != "apt":
        return without_apt(state, "installed")
    if asked.request.is_met_by(state) and not _has_begun(host, state):
        return None
    if state.holder:
        text = f"{state.holder} is at work on packages; apply waits up to {asked.lock_wait_s} s"
        notice(host, asked.concern, text)
    elif left := unfinished(state):
        return _unfinished(host, asked, state, left)
    return _planned(host, asked, state, repairs=False)


def _unfinished(host: Host, asked: _Asked, state: DpkgState, left: str) -> Installing | str | None:
    try:
        work = _cut_off(host, state)
    except RigopsError as error:
        return _unreadable(error)
    if work is not None:
        return _to_be_finished(host, asked, work, left)
    repairs = asked.repair or consent_of(host).repair
    if unfixable := _broken(host, state, left, repairs=repairs):
        return unfixable
    return _planned(host, asked, state, repairs=repairs)


def _has_begun(host: Host, state: DpkgState) -> bool:
    """Whether it is left to finish what an earlier run began; nobody else is at work by now."""
    try:
        return state.holder is None and _cut_off(host, state) is not None
    except RigopsError:
        return False


def _cut_off(host: Host, state: DpkgState) -> PackageWork | None:
    """The work of an earlier run, where all that dpkg did not finish is of it."""
    if not unfinished(state):
        return None
    work = PackageWork.parse(host.get_fact(RigopsState).records.get(WORK_RECORD))
    return work if work.explains(state) else None


def _broken(host: Host, state: DpkgState, left: str, *, repairs: bool) -> str | None:
    """Why it is not repaired here."""
    if unfixable := not_to_be_configured(state):
        return unfixable
    repair = Repair(left, CONFIGURE, repairs)
    shown = context_of(host).shown
    if shown is not None and repair not in shown.repairs:  # consent is for what was named
        return f"{left}, and the plan did not show that: sudo {CONFIGURE}, or run this again"
    announce_repair(host, repair)
    return None if repairs else f"{left}: sudo {CONFIGURE}"


def _to_be_finished(host: Host, asked: _Asked, work: PackageWork, left: str) -> Installing | str:
    """Apt cannot simulate that yet; the plan shows what was begun, and what is requested now."""
    if host.state.is_executing:
        return f"{left}, and could not be finished: {FINISH}"
    announce_repair(host, Repair(left, FINISH, agreed=True))
    begun = {one.name: one for one in work.packages}
    state: DpkgState = host.get_fact(Dpkg, names=tuple(sorted({*asked.request.names, *begun})))
    asked_now = {
        name: Package(name, entry.version if (entry := state.get(name)) else None, version)
        for name, version in asked.request.install.items()
        if version
    }
    found = changes([
        one
        for one in {**begun, **asked_now}.values()
        if ((entry := state.get(one.name)) and entry.version) != one.after
    ])  # fmt: skip
    announce_packages(host, asked.concern, found)
    return Installing(words=(), printed=(), lock_wait_s=asked.lock_wait_s, repairs=True)


def _planned(
    host: Host, asked: _Asked, state: DpkgState, *, repairs: bool
) -> Installing | str | None:
    words = asked.request.words(state)
    simulated: Simulated = host.get_fact(AptWould, words=words, source=asked.source)
    if reason := blocker(asked.request, state, simulated, asked.change_held):
        return reason
    if asked.driver and (other := other_driver(asked.driver, simulated)):
        return other
    if text := old_lists(simulated):
        notice(host, asked.concern, text)
    if not simulated.printed and not repairs:
        return None
    found = changes(simulated.steps)
    shown = context_of(host).shown
    if shown is not None and not shown.shows(found):
        return "apt would now make changes that the plan did not show; run this again"
    try:
        before, after = _records(asked, state, simulated.steps)
    except RigopsError as error:
        return _unreadable(error)
    announce_packages(host, asked.concern, found)
    if not found:
        housekeeping(host, asked.concern, "packages that are not configured")
    going = {step.name for step in simulated.steps if step.after is None}
    return Installing(
        words=words,
        printed=simulated.printed,
        lock_wait_s=asked.lock_wait_s,
        unless=asked.unless,
        repairs=repairs,
        downgrades=bool(found.downgrade),
        changes_held=bool(simulated.held_changed),
        hold_again=tuple(name for name in simulated.held_changed if name not in going),
        record_before=before,
        record_after=after,
        work=PackageWork(simulated.steps).to_json(),
    )


def changes(steps: Sequence[Package]) -> PackageChanges:
    moved = [
        (one, compare(one.after, one.before))
        for one in steps
        if one.before is not None and one.after is not None
    ]
    return PackageChanges(
        install=tuple(one for one in steps if one.before is None),
        remove=tuple(one for one in steps if one.after is None),
        upgrade=tuple(one for one, order in moved if order >= 0),
        downgrade=tuple(one for one, order in moved if order < 0),
    )


def _records(
    asked: _Asked, state: DpkgState, steps: Sequence[Package]
) -> tuple[str | None, str | None]:
    """The record as it is to be before and after; None where it stays."""
    owned = OwnedPackages.parse(state.owned) if state.owned is not None else OwnedPackages()
    new = [
        OwnedPackage(step.name, asked.concern, asked=step.name in asked.request.install)
        for step in steps
        if step.before is None
    ]
    gone = [step.name for step in steps if step.after is None and step.name in owned.packages]
    before = owned.having(new)
    after = before.without(gone)
    return (before.to_json() if new else None, after.to_json() if gone else None)


def _unreadable(error: RigopsError) -> str:
    return "; ".join(f"{one.message}: {one.fix}" for one in error.problems)


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
    """Hold these packages, and release those that the concern held before and does not name.

    A package with another tool's hold stays held when it is not named any more.

    + names: all of the concern's; they are installed by then
    + declared: whether anything of the concern is declared; else releasing needs consent of its own
    """
    try:
        record = Holds.parse(host.get_fact(RigopsState).records.get(HOLDS_RECORD))
    except RigopsError as error:
        yield blocked(host, concern, _unreadable(error))
        return
    ending = [name for name in record.names_for(concern) if name not in names]
    if ending and not declared and consent_of(host).keep_holds:
        count = f"{len(ending)} packages stay" if len(ending) > 1 else "1 package stays"
        kernels = ", ".join(filter(is_kernel_meta, ending))
        also = f", and no newer kernel comes ({kernels})" if kernels else ""
        text = f"{count} held: no upgrade changes them{also}; --drop-holds releases them"
        notice(host, concern, text)
        ending = []
    if (
        ending
        and not declared
        and not may_undo(host, concern, [*plan_of(host).undeclared.get(concern, ()), *ending])
    ):
        host.noop(f"{', '.join(ending)} stay held: releasing them was not confirmed")
        ending = []
    if not names and not ending:
        host.noop("nothing is to be held or released")
        return
    every = host.get_fact(GpuPackages).packages
    already = {one.name for one in every if one.is_installed and one.is_held}
    if not ending and already.issuperset(names):
        host.noop(f"{', '.join(sorted(names))}: held")
        return
    state: DpkgState = host.get_fact(Dpkg, names=tuple(sorted({*names, *ending})))
    if state.manager != "apt":
        yield blocked(host, concern, without_apt(state, "held"))
        return
    coming = [name for name in sorted(names) if not _is_held(state, name)]
    going = [name for name in ending if _is_held(state, name)]
    if not coming and not ending:
        host.noop(f"{', '.join(sorted(names))}: held")
        return
    before, after = ("".join(f"{name}\n" for name in one) or None for one in (ending, coming))
    announce(host, Change(concern, "hold", HOLDS, before, after))
    # The record has every hold of rigops at every moment.
    having = record.having(coming, concern)
    effects = [
        shlex.join(("apt-mark", "-q", how, *marked))
        for how, marked in (("hold", coming), ("unhold", going))
        if marked
    ]
    if ending:
        effects.append(noted(HOLDS_RECORD, having.without(ending).to_json().encode()))
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        notes={HOLDS_RECORD: having.to_json().encode()} if coming else {},
        more_effects=tuple(map(Effect, effects)),
    )
    marks = StringCommand("sh", "-s", _stdin=file_work_script(work))
    # apt-mark itself does not wait for other package managers.
    yield StreamingCommand("sh", "-s", _stdin=waiting(_LOCK_WAIT_S), _timeout=_SLOW_S)
    yield marks


def _is_held(state: DpkgState, name: str) -> bool:
    entry = state.get(name)
    return entry is not None and entry.held
