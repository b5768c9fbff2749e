"""Having one boot try new kernel arguments: ordered, taken back, and judged once it came."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rigops.converge import trial
from rigops.converge.troubles import DeployError
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.deploying import Deploying
    from rigops.converge.occupants import Occupants
    from rigops.converge.result import HostResult
    from rigops.converge.visit import Visit

_ANSWER_S: Final = 20.0


class TrialBoot:
    """`trying` is empty where the reboot has nothing to try."""

    def __init__(self, visit: Visit, deploying: Deploying, result: HostResult) -> None:
        self._visit = visit
        self._deploying = deploying
        self._result = result
        self._before = visit.seen
        way = deploying.way(now=True)
        planned = deploying.plan(way)
        self.trying = planned.trying
        self._wait_s = planned.trial_wait_s
        if self.trying:
            deploying.apply("trial", way)

    @property
    def patience_s(self) -> float:
        """A trial that fails ends by itself at the deadline, and is followed by one boot more."""
        deadline_s = self._visit.reboot_timeout_s
        return 2 * deadline_s + self._wait_s + trial.MARGIN_S if self.trying else deadline_s

    @contextmanager
    def taken_back_if_refused(self) -> Iterator[None]:
        """Where the reboot was refused: a later one that nobody watches is to try nothing.

        To a host that did not come back there is no connection any more.
        """
        try:
            yield
        except RigopsError:
            stage = self._visit.stage_now
            with suppress(RigopsError):
                if self.trying:
                    self._take_back()
            self._visit.stage_now = stage
            raise

    def judge(self, who: Occupants) -> None:
        """Only arguments that a boot was seen to come through with become permanent."""
        visit, trying = self._visit, self.trying
        with visit.stage("verify"):
            visit.look()
        reason = trial.shortfall(self._before, visit.seen, trying)
        if not reason:
            self._result.story.append(trial.held(trying))
            return
        kept = visit.seat.run(["cat", trial.LOG], b"", _ANSWER_S).stdout
        if trial.is_trial(visit.seen):
            visit.reboot(who, visit.reboot_timeout_s)  # its next boot is the old one
            with visit.stage("verify"):
                visit.look()
        self._take_back()
        self._result.story += trial.story(trying, reason, kept.decode(errors="replace"))
        raise DeployError(f"the boot that tried {' '.join(trying)} did not hold: {reason}")

    def _take_back(self) -> None:
        self._deploying.apply("return", self._deploying.way(given_up=True))
        self._visit.release()
