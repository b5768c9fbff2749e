"""New kernel arguments are tried by one boot before they become permanent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.bootloader.trial import LOG, NoTrial, prepare
from rigops.bootloader.trial_log import became
from rigops.facts.files import FileAt
from rigops.facts.sections import Boot, CommandLine
from rigops.facts.trial_ground import TrialGround
from rigops.operations.change import notice, story
from rigops.operations.trying import way_to_try

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.bootloader.trial import Trial
    from rigops.operations.trying import Way
    from rigops.record.arguments import Arguments

_CONCERN: Final = "kernel_args"
_PLAIN: Final = (
    "new kernel arguments are tried by one boot first, and plain pyinfra cannot bring a host back: "
    'use `rigops apply`, or declare kernel_trial = "off"'
)
_CONSENT: Final = 'agree to that with --accept-no-trial, or declare kernel_trial = "off"'


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
    way = way_to_try(host)
    if way is None:
        return Attempt(refusal=_PLAIN)
    if way.given_up:
        return Attempt(holds_back=True, is_given_up=True)
    _tell_of_the_last(host, record)
    is_known = record.trying and set(new) <= set(record.trying)
    if is_known and not way.now:
        story(host).trying = new
        return Attempt(holds_back=True)
    return _prepared(host, way, new, leaving)


def _prepared(host: Host, way: Way, new: tuple[str, ...], leaving: tuple[str, ...]) -> Attempt:
    line = host.get_fact(CommandLine).line
    prepared = prepare(
        host.get_fact(TrialGround),
        running=line,
        add=new,
        remove=leaving,
        deadline_s=way.deadline_s,
    )
    if isinstance(prepared, NoTrial):
        story(host).untried = prepared.reason
        if way.untried:
            notice(host, _CONCERN, f"{_told(new)} cannot be tried first: {prepared.reason}")
            return Attempt()
        reason = f"{_told(new)} cannot be tried by one boot first, since {prepared.reason}"
        return Attempt(refusal=f"{reason}; {_CONSENT}")
    for text in prepared.notices:
        notice(host, _CONCERN, text)
    story(host).trying, story(host).trial_wait_s = new, prepared.extra_wait_s
    return Attempt(holds_back=True, trial=prepared if way.now else None)


def _tell_of_the_last(host: Host, record: Arguments) -> None:
    """A run that ended before it could tell has left that to us."""
    boot_id = host.get_fact(Boot).boot_id
    if record.trying and record.armed_in and boot_id and record.armed_in != boot_id:
        log = host.get_fact(FileAt, path=LOG)
        how = became(log.text if log else "")
        notice(host, _CONCERN, f"a boot with {_told(record.trying)} was tried before: {how}")


def _told(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments)
