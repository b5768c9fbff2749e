"""New kernel arguments are tried by one boot: ordered, judged once it came, undone if it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.converge import trial_judging
from rigops.converge.errors import DeployError
from rigops.errors import RigopsError
from rigops.record.trial_boot import LOG

if TYPE_CHECKING:
    from rigops.converge.reboot_impact import RebootImpact
    from rigops.converge.result import HostResult
    from rigops.converge.session import HostSession

_ANSWER_S: Final = 20.0
_MARGIN_S: Final = 120.0  # beside the trial's own deadline and that of the boot which follows it


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

    def judge(self, impact: RebootImpact) -> None:
        """Only arguments that a boot was seen to come through with become permanent."""
        session, arguments = self._session, self.arguments
        reason = trial_judging.shortfall(self._before, session.probe("verify"), arguments)
        if not reason:
            self._result.story.append(trial_judging.success(arguments))
            return
        log = session.channel.run(["cat", LOG], b"", _ANSWER_S).stdout
        if trial_judging.is_trial(session.snapshot):
            session.reboot(impact, session.reboot_timeout_s)  # its next boot is the old one
            session.probe("verify")
        self._undo()
        self._result.story += trial_judging.failure(arguments, reason, log.decode(errors="replace"))
        raise DeployError(f"the boot that tried {' '.join(arguments)} did not hold: {reason}")

    def _undo(self) -> None:
        self._session.apply("return", self._session.trial_options(given_up=True))
        self._session.release()
