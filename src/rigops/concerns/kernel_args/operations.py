"""Kernel arguments that rigops owns: tried by one boot before they become permanent."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Literal

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.kernel_args.boot_places import (
    COMMAND_LINE,
    CONCERN,
    BootPlace,
    Part,
    place_of,
    with_menu_of,
)
from rigops.concerns.kernel_args.bootloader.choice import Blocker
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError
from rigops.concerns.kernel_args.trial_boot import conditions
from rigops.concerns.kernel_args.trial_boot.parts import DISARM, PROGRAM, UNIT_FILE, NoTrial, Trial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.facts.files import FileAt
from rigops.facts.sections import Boot, Bootloader, CommandLine, RigopsState, SectionFact
from rigops.ownership.file_work import Effect, FileWork, noted
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import is_changed_by_hand, notice_left_alone, present
from rigops.ownership.ownership import Ownership, WantedFile, digest, reconcile
from rigops.plan.change import Change, LaterChange
from rigops.plan.commands import blocked
from rigops.plan.context import (
    TrialOptions,
    announce,
    announce_later,
    consent_of,
    headline,
    housekeeping,
    may_undo,
    notice,
    plan_of,
    trial_options,
)
from rigops.probe.kernel_arguments import Split, against
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING
from rigops.record.kernel_arguments import (
    UNREADABLE_FIX,
    Arguments,
    arguments_document,
    leaving_document,
    parse_arguments,
    read_arguments,
    read_leaving,
)
from rigops.record.trial_boot import CONFIRMED, LOG, outcome


class TrialConditions(SectionFact[conditions.Conditions]):
    """Asked only where a trial is planned."""

    section = conditions.SECTION


@dataclass(frozen=True)
class _Attempt:
    """`holds_back`: what every boot reads is not changed until one boot was verified."""

    holds_back: bool = False
    is_given_up: bool = False
    blocker: str = ""
    trial: Trial | None = None  # to be laid out now, since the reboot follows


@operation()
def kernel_args(
    *,
    wanted: tuple[str, ...],
    again: tuple[str, ...] = (),
    declared: bool = True,
    trial: Literal["required", "off"] = "required",
) -> Generator[StringCommand, None, None]:
    """Make these arguments part of every normal boot, once one boot with them was verified.

    + wanted: the arguments, such as ``("iommu=pt",)``; none undoes what rigops added
    + again: those of them that one boot has to try again, since what they choose has changed
    + declared: whether the inventory declares arguments at all; else undoing needs consent
    + trial: ``off`` makes new arguments permanent at once
    """
    state = host.get_fact(RigopsState)
    owned = Ownership.from_state(state)
    text = state.records.get(ARGUMENTS)
    paths, record = owned.paths_of(CONCERN), read_arguments(text)
    has_ours = bool(paths or record)
    if not declared and not (has_ours and may_undo(host, CONCERN, paths or [ARGUMENTS])):
        host.noop("no kernel arguments are declared")
        return
    try:
        parse_arguments(text) if text is not None else None
    except RigopsError:
        yield blocked(host, CONCERN, f"{ARGUMENTS} cannot be read: {UNREADABLE_FIX}")
        return
    place = place_of(host.get_fact(Bootloader), owned, state, record)
    if isinstance(place, Blocker):
        if wanted:
            yield blocked(host, CONCERN, f"{place.reason}: {place.by_hand(wanted)}")
        elif has_ours:
            yield blocked(host, CONCERN, f"{place.reason}, so rigops leaves its arguments")
        return
    split = against(wanted, place.foreign)
    try:
        yield from _have(
            split, wanted, place, owned, record, again=again, is_required=trial == "required"
        )
    except CannotEditError as error:
        yield blocked(host, CONCERN, f"{error}; nothing is changed ({place.title})")


def _have(
    split: Split,
    wanted: tuple[str, ...],
    place: BootPlace,
    owned: Ownership,
    record: Arguments,
    *,
    again: tuple[str, ...],
    is_required: bool,
) -> Generator[StringCommand, None, None]:
    paths, ours = owned.paths_of(CONCERN), split.ours
    # What is tried again is in no other boot meanwhile: these are those that work without it.
    again = again if is_required else ()
    live = tuple(one for one in host.get_fact(CommandLine).arguments if one not in again)
    before = tuple(one for one in place.written if one not in again)
    new = tuple(one for one in ours if one not in before and one not in live)
    _announce_headline(ours, before, record)
    tried = _attempt(
        new=new,
        leaving=tuple(one for one in before if one not in ours),
        record=record,
        is_required=is_required,
    )
    if tried.blocker:
        yield blocked(host, CONCERN, tried.blocker)
        return
    part = place.having(before if tried.holds_back else ours)
    part = with_menu_of(split.present, place, part)
    if tried.holds_back and not tried.is_given_up:
        _announce_permanent(place.having(ours), tried)
    work = _work(owned, paths, part, tried)
    following = _record(record, new, part, tried, is_clear=set(paths) <= set(part.present))
    notes = {ARGUMENTS: _document(following)} if following != record else {}
    if part.unsettled is not None:
        begun = replace(following, written=part.unsettled, is_unsettled=True)
        notes = {ARGUMENTS: _document(begun)}
        settled = Effect(noted(ARGUMENTS, _document(following)))
        work = replace(work, more_effects=(*work.more_effects, settled))
    if not work and not notes:
        host.noop(f"kernel arguments are configured: {' '.join(wanted) or 'none of ours'}")
        return
    texts = host.get_fact(Bootloader).texts
    for path in paths:
        if path not in part.present and not tried.trial:
            text = texts.get(path, "of the boot that was tried\n")
            announce(host, Change(CONCERN, "file", path, text, None))
    _announce(
        part,
        earlier=(*before, *record.trying),
        coming=(*(before if tried.holds_back else ours), *following.trying),
        differs_on_trial=following.trying != record.trying,
    )
    housekeeping(host, CONCERN, ARGUMENTS)
    if not tried.holds_back:
        notes |= _going(before, wanted)
    yield FileWorkCommand(replace(work, notes=notes), touches=frozenset({Bootloader}))


def _announce_headline(ours: tuple[str, ...], before: tuple[str, ...], record: Arguments) -> None:
    coming = [one for one in ours if one not in before]
    for which, arguments in (
        ("", [one for one in coming if one not in record.trying]),
        ("tried ", [one for one in coming if one in record.trying]),
        ("without ", [one for one in before if one not in ours]),
    ):
        if arguments:
            plural = "s" if len(arguments) > 1 else ""
            headline(host, CONCERN, f"{which}kernel argument{plural} {' '.join(arguments)}")


def _attempt(
    *,
    new: tuple[str, ...],
    leaving: tuple[str, ...],
    record: Arguments,
    is_required: bool,
) -> _Attempt:
    """How these arguments, which the kernel does not run with, become permanent.

    + leaving: arguments of ours that go when the new ones come
    """
    if not new or not is_required:
        return _Attempt()
    options = trial_options(host)
    if options is None:
        return _Attempt(
            blocker="new kernel arguments are tried by one boot first, and plain pyinfra cannot "
            'undo that: use `rigops apply`, or declare "kernel_trial": "off"'
        )
    if options.given_up:
        return _Attempt(holds_back=True, is_given_up=True)
    boot_id = host.get_fact(Boot).boot_id
    if record.trying and record.armed_in and boot_id and record.armed_in != boot_id:
        # For a run that ended before it could report it.
        log = host.get_fact(FileAt, path=LOG)
        how = outcome(log.text if log else "")
        notice(host, CONCERN, f"an earlier trial boot with {' '.join(record.trying)}: {how}")
    is_known = record.trying and set(new) <= set(record.trying)
    if is_known and not options.now:
        plan_of(host).trial_arguments = new
        return _Attempt(holds_back=True)
    return _prepared(options, new, leaving)


def _prepared(options: TrialOptions, new: tuple[str, ...], leaving: tuple[str, ...]) -> _Attempt:
    prepared = prepare(
        host.get_fact(TrialConditions),
        running=_without(host.get_fact(CommandLine).line, new),
        add=new,
        remove=leaving,
        deadline_s=options.deadline_s,
    )
    if isinstance(prepared, NoTrial):
        plan_of(host).no_trial = prepared.reason
        reason = f"{' '.join(new)} cannot be tried first: {prepared.reason}"
        if consent_of(host).no_trial:
            notice(host, CONCERN, reason)
            return _Attempt()
        return _Attempt(
            blocker=f'{reason}; pass --accept-no-trial, or declare "kernel_trial": "off"'
        )
    for text in prepared.notices:
        notice(host, CONCERN, text)
    plan_of(host).trial_arguments, plan_of(host).trial_wait_s = new, prepared.extra_wait_s
    return _Attempt(holds_back=True, trial=prepared if options.now else None)


def _without(line: str, new: tuple[str, ...]) -> str:
    """The same line where none of these are in it, since others may have spaces in quotes."""
    words = line.split(" ")
    return line if not set(new) & set(words) else " ".join(w for w in words if w not in new)


def _document(record: Arguments) -> bytes:
    return arguments_document(record).encode()


def _record(
    record: Arguments, new: tuple[str, ...], part: Part, tried: _Attempt, *, is_clear: bool
) -> Arguments:
    """`is_clear`: nothing of a trial is left on the host."""
    trying = new if tried.holds_back and not tried.is_given_up else ()
    following = Arguments(trying=trying, written=part.written)
    options = trial_options(host)
    if tried.trial and options:
        return replace(following, armed_in=host.get_fact(Boot).boot_id or "", cards=options.cards)
    if is_clear and trying == record.trying:
        return replace(following, armed_in=record.armed_in, cards=record.cards)
    return following


def _work(owned: Ownership, ours: list[str], part: Part, tried: _Attempt) -> FileWork:
    """The places of every boot, and the files of a trial: laid out now, or undone."""
    wanted, contents, effects = dict(part.wanted), dict(part.contents), dict(part.effects)
    more_effects = part.more_effects
    if tried.trial:
        armed = Effect(tried.trial.arm)
        more_effects = (*more_effects, armed)
        for path, file in tried.trial.files.items():
            wanted[path] = WantedFile(CONCERN, digest(file.content), file.mode)
            contents[path], effects[path] = file.content, armed
    effects |= {path: _ended(path) for path in ours if path not in effects}
    others = [path for path in (*ours, *wanted) if path not in part.present]
    there = {**present(host, others), **part.present}
    steps = reconcile(owned.only(ours), wanted, there, selected={CONCERN})
    notice_left_alone(host, CONCERN, steps)
    return FileWork(
        before=owned,
        steps=tuple(steps),
        contents=contents,
        effects=effects,
        more_effects=more_effects,
    )


def _ended(path: str) -> Effect:
    """Stopping the unit that would end this boot confirms it; the file is for one that hangs."""
    unit = UNIT_FILE.rpartition("/")[2] if path == UNIT_FILE else ""
    confirmed = f"mkdir -p {CONFIRMED.rpartition('/')[0]}\n: >{CONFIRMED}\n"
    emptied = f"rmdir {PROGRAM.rpartition('/')[0]} 2>/dev/null || :\n"
    return Effect(f"{confirmed}{DISARM}rm -f {LOG}\n{emptied}", unit=unit)


def _announce(
    part: Part, *, earlier: tuple[str, ...], coming: tuple[str, ...], differs_on_trial: bool
) -> None:
    """Arguments are permanent or on trial. One that becomes permanent is shown by its file."""
    for change in part.changes:
        announce(host, replace(change, by_hand=is_changed_by_hand(host, change.subject)))
    if differs_on_trial and earlier != coming:
        before, after = (" ".join(arguments) or None for arguments in (earlier, coming))
        announce(host, Change(CONCERN, "argument", COMMAND_LINE, before, after))


def _announce_permanent(part: Part, tried: _Attempt) -> None:
    """The step after the boot that tries the arguments."""
    for change in part.changes:
        when = "after the boot that tries it"
        announce_later(host, LaterChange(CONCERN, change.kind, change.subject, when=when))
    # The end of the trial: the plan shows the arguments that it tries.
    announce_later(host, LaterChange(CONCERN, "argument", COMMAND_LINE, when=""))
    for path in tried.trial.files if tried.trial else ():
        announce_later(host, LaterChange(CONCERN, "file", path, when=""))


def _going(before: tuple[str, ...], wanted: tuple[str, ...]) -> dict[str, bytes]:
    """A record of what leaves the menu now, and stays in the running kernel."""
    boot_id = host.get_fact(Boot).boot_id
    if boot_id is None:
        return {}
    live = host.get_fact(CommandLine).arguments
    earlier = read_leaving(host.get_fact(RigopsState).records.get(LEAVING), boot_id)
    going = tuple(
        one for one in dict.fromkeys((*earlier, *before)) if one in live and one not in wanted
    )
    return {LEAVING: leaving_document(going, boot_id).encode()} if going else {}
