"""New kernel arguments are tried by one boot: ordered, judged once it came, undone if it failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from rigops.concerns import registry
from rigops.converge.errors import DeployError
from rigops.converge.result import HostResult
from rigops.converge.session import HostSession
from rigops.converge.snapshot import RunSnapshot
from rigops.errors import RigopsError
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.kernel_arguments import read_arguments
from rigops.record.trial_boot import LOG, outcome

_ANSWER_S: Final = 20.0
_MARGIN_S: Final = 120.0  # beside the trial's own deadline and that of the boot which follows it


def lost(now: RunSnapshot) -> str:
    """Why a trial boot that another run has ordered does not become permanent, or nothing."""
    if not now.is_trial or now.state is None:
        return ""
    record = read_arguments(now.state.records.get(ARGUMENTS))
    gone = set(record.cards).difference(now.cards)
    if not gone:
        return ""
    return (
        f"it runs with {' '.join(record.trying)} to try that, and {_listed(gone)} gone with it: "
        "reboot it, or wait until it goes back to its old arguments by itself; then run this again"
    )


def earlier(now: RunSnapshot) -> tuple[str, ...]:
    """The arguments that this boot tries for a run that did not see it through."""
    if not now.is_trial or now.state is None:
        return ()
    return read_arguments(now.state.records.get(ARGUMENTS)).trying


def shortfall(before: RunSnapshot, now: RunSnapshot, arguments: tuple[str, ...]) -> str:
    """Why the arguments do not become permanent, or nothing. `before`: seen ahead of the boot."""
    live = now.command_line.arguments if now.command_line else ()
    absent = [one for one in arguments if one not in live]
    if absent:
        return f"the host does not run with {' '.join(absent)}"
    gone = set(before.cards).difference(now.cards)
    if gone:
        return f"{_listed(gone)} gone with them"
    return ""


def failure_of_concern(now: RunSnapshot, arguments: tuple[str, ...]) -> str:
    known = dict(now.known)
    found = (one.trial_failure(arguments, known) for one in registry.in_this_version())
    return next(filter(None, found), "")


def failed_proof(arguments: Collection[str]) -> str:
    found = (one.failed_proof(arguments) for one in registry.in_this_version())
    return next(filter(None, found), "")


def success(arguments: tuple[str, ...]) -> str:
    return f"the boot with {' '.join(arguments)} was tried and works: it is permanent now"


def after_this(arguments: tuple[str, ...], deadline_s: float) -> str:
    """For the machine that the run is on, which ends with it."""
    if not arguments:
        return "this machine reboots now; run the same command after that"
    return (
        f"this machine reboots now, to try {' '.join(arguments)}: run the same command within "
        f"{deadline_s / 60:g} minutes, or it goes back to its old arguments by itself"
    )


def failure(arguments: tuple[str, ...], reason: str, log: str) -> Iterator[str]:
    """`log`: what the boot that was tried has left behind."""
    yield f"one boot tried {' '.join(arguments)}: {outcome(log)}"
    yield f"{reason}: its old arguments are in force, and nothing of the new ones is left"


def _listed(gone: set[str]) -> str:
    return f"{', '.join(sorted(gone))} {'is' if len(gone) == 1 else 'are'}"


class TrialBoot:
    """`arguments` is empty where the reboot has nothing to try."""

    def __init__(self, session: HostSession, result: HostResult) -> None:
        self._session = session
        self._result = result
        self._before = session.snapshot
        options = session.trial_options(now=True)
        planned = session.plan(options)
        self.arguments = planned.trial_arguments
        self._wait_s = planned.trial_wait_s
        if self.arguments:
            # Files that only the trial needs: the plan showed them by the arguments.
            session.shown = replace(session.shown, later=(*session.shown.later, *planned.later))
            session.apply("trial", options)

    @property
    def patience_s(self) -> float:
        """A trial that fails ends by itself at the deadline, and is followed by one boot more."""
        deadline_s = self._session.reboot_timeout_s
        return 2 * deadline_s + self._wait_s + _MARGIN_S if self.arguments else deadline_s

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """Where the reboot was refused: a later one that nobody watches is to try nothing.

        A host that did not come back has no connection any more.
        """
        try:
            yield
        except RigopsError:
            stage = self._session.stage_now
            try:
                if self.arguments:
                    self._undo()
            except Exception as error:  # noqa: BLE001 - why there was no reboot counts more
                self._result.story.append(f"the trial boot could not be undone: {error}")
            self._session.stage_now = stage
            raise

    def judge(self, fails_its_proof: Callable[[tuple[str, ...]], str]) -> None:
        """Only arguments that a boot was seen to come through with become permanent.

        `fails_its_proof`: why what the boot came through with does not work all the same, or
        nothing. It is asked last, while the arguments are those of this one boot.
        """
        session, arguments = self._session, self.arguments
        now = session.probe("verify")
        reason = shortfall(self._before, now, arguments) or failure_of_concern(now, arguments)
        reason = reason or fails_its_proof(arguments)
        if not reason:
            self._result.story.append(success(arguments))
            return
        log = session.channel.run(["cat", LOG], b"", _ANSWER_S).stdout
        if session.snapshot.is_trial:
            impact = session.find_reboot_impact()  # copies may hang in the driver by now
            session.reboot(impact, session.reboot_timeout_s)  # its next boot is the old one
            session.probe("verify")
        self._undo(reason)
        self._result.story += failure(arguments, reason, log.decode(errors="replace"))
        raise DeployError(f"the boot that tried {' '.join(arguments)} did not hold: {reason}")

    def _undo(self, failed: str = "") -> None:
        options = self._session.trial_options(given_up=True, failed=failed, tried=self.arguments)
        self._session.apply("return", options)
        self._session.release()
