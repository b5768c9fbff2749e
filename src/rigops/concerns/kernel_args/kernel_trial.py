"""New kernel arguments are tried by one boot before they become permanent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.facts import TrialConditions
from rigops.concerns.kernel_args.trial_boot.log import became
from rigops.concerns.kernel_args.trial_boot.parts import LOG, NoTrial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare
from rigops.facts.files import FileAt
from rigops.facts.sections import Boot, CommandLine
from rigops.plan.context import notice, plan_log, trial_options

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.concerns.kernel_args.record import Arguments
    from rigops.concerns.kernel_args.trial_boot.parts import Trial
    from rigops.plan.context import TrialOptions

_CONCERN: Final = "kernel_args"
_PLAIN: Final = (
    "new kernel arguments are tried by one boot first, and plain pyinfra cannot bring a host back: "
    'use `rigops apply`, or declare kernel_trial = "off"'
)
_CONSENT: Final = 'pass --accept-no-trial, or declare kernel_trial = "off"'


@dataclass(frozen=True)
class Attempt:
    """`holds_back`: what every boot reads stays as it is until one boot was verified."""

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
        return Attempt(refusal=_PLAIN)
    if options.given_up:
        return Attempt(holds_back=True, is_given_up=True)
    _notice_last_trial(host, record)
    is_known = record.trying and set(new) <= set(record.trying)
    if is_known and not options.now:
        plan_log(host).trial_arguments = new
        return Attempt(holds_back=True)
    return _prepared(host, options, new, leaving)


def _prepared(
    host: Host, options: TrialOptions, new: tuple[str, ...], leaving: tuple[str, ...]
) -> Attempt:
    line = host.get_fact(CommandLine).line
    prepared = prepare(
        host.get_fact(TrialConditions),
        running=line,
        add=new,
        remove=leaving,
        deadline_s=options.deadline_s,
    )
    if isinstance(prepared, NoTrial):
        plan_log(host).no_trial = prepared.reason
        if options.may_skip:
            notice(host, _CONCERN, f"{' '.join(new)} cannot be tried first: {prepared.reason}")
            return Attempt()
        reason = f"{' '.join(new)} cannot be tried by one boot first: {prepared.reason}"
        return Attempt(refusal=f"{reason}; {_CONSENT}")
    for text in prepared.notices:
        notice(host, _CONCERN, text)
    plan_log(host).trial_arguments, plan_log(host).trial_wait_s = new, prepared.extra_wait_s
    return Attempt(holds_back=True, trial=prepared if options.now else None)


def _notice_last_trial(host: Host, record: Arguments) -> None:
    """For a run that ended before it could report it."""
    boot_id = host.get_fact(Boot).boot_id
    if record.trying and record.armed_in and boot_id and record.armed_in != boot_id:
        log = host.get_fact(FileAt, path=LOG)
        how = became(log.text if log else "")
        notice(host, _CONCERN, f"an earlier trial boot with {' '.join(record.trying)}: {how}")
