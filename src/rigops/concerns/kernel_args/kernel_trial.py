"""New kernel arguments are tried by one boot before they become permanent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.concerns.kernel_args.boot_places import CONCERN
from rigops.concerns.kernel_args.trial_boot import conditions
from rigops.concerns.kernel_args.trial_boot.parts import NoTrial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare
from rigops.facts.files import FileAt
from rigops.facts.sections import Boot, CommandLine, SectionFact
from rigops.plan.context import notice, plan_log, trial_options
from rigops.record.trial_boot import LOG, outcome

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.concerns.kernel_args.trial_boot.parts import Trial
    from rigops.plan.context import TrialOptions
    from rigops.record.kernel_arguments import Arguments


class TrialConditions(SectionFact[conditions.Conditions]):
    """Asked only where a trial is planned."""

    section = conditions.SECTION


@dataclass(frozen=True)
class Attempt:
    """`holds_back`: what every boot reads is not changed until one boot was verified."""

    holds_back: bool = False
    is_given_up: bool = False
    refusal: str = ""
    trial: Trial | None = None  # to be laid out now, since the reboot follows


def attempt(
    host: Host,
    *,
    new: tuple[str, ...],
    leaving: tuple[str, ...],
    record: Arguments,
    is_required: bool,
) -> Attempt:
    """How these arguments, which the kernel does not run with, become permanent.

    + leaving: arguments of ours that go when the new ones come
    """
    if not new or not is_required:
        return Attempt()
    options = trial_options(host)
    if options is None:
        return Attempt(
            refusal="new kernel arguments are tried by one boot first, and plain pyinfra cannot "
            'undo that: use `rigops apply`, or declare kernel_trial = "off"'
        )
    if options.given_up:
        return Attempt(holds_back=True, is_given_up=True)
    boot_id = host.get_fact(Boot).boot_id
    if record.trying and record.armed_in and boot_id and record.armed_in != boot_id:
        # For a run that ended before it could report it.
        log = host.get_fact(FileAt, path=LOG)
        how = outcome(log.text if log else "")
        notice(host, CONCERN, f"an earlier trial boot with {' '.join(record.trying)}: {how}")
    is_known = record.trying and set(new) <= set(record.trying)
    if is_known and not options.now:
        plan_log(host).trial_arguments = new
        return Attempt(holds_back=True)
    return _prepared(host, options, new, leaving)


def _prepared(
    host: Host, options: TrialOptions, new: tuple[str, ...], leaving: tuple[str, ...]
) -> Attempt:
    prepared = prepare(
        host.get_fact(TrialConditions),
        running=host.get_fact(CommandLine).line,
        add=new,
        remove=leaving,
        deadline_s=options.deadline_s,
    )
    if isinstance(prepared, NoTrial):
        plan_log(host).no_trial = prepared.reason
        reason = f"{' '.join(new)} cannot be tried first: {prepared.reason}"
        if options.may_skip:
            notice(host, CONCERN, reason)
            return Attempt()
        return Attempt(refusal=f'{reason}; pass --accept-no-trial, or declare kernel_trial = "off"')
    for text in prepared.notices:
        notice(host, CONCERN, text)
    plan_log(host).trial_arguments, plan_log(host).trial_wait_s = new, prepared.extra_wait_s
    return Attempt(holds_back=True, trial=prepared if options.now else None)
