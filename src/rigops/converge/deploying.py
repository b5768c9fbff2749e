"""Planning and running the deploys on a host, within what was agreed to for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.converge import trial
from rigops.converge.troubles import DeployError
from rigops.operations.consent import Consent
from rigops.operations.trying import Way

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from rigops.converge.engine import Engine, Planned
    from rigops.converge.result import HostResult
    from rigops.converge.visit import Visit
    from rigops.converge.wanted import Run

_ANSWER_S: Final = 20.0


class Deploying:
    def __init__(self, visit: Visit, run: Run, engine: Engine, result: HostResult) -> None:
        self.agreed: Collection[str] = ()  # removals
        self.untried = True  # new kernel arguments may become permanent where no boot can try them
        self.impossible: set[str] = set()  # concerns that are blocked here
        self.owed: tuple[tuple[str, str], ...] = ()  # concern and what a reboot is to bring
        self._visit = visit
        self._run = run
        self._engine = engine
        self._result = result
        self._consent = Consent(
            interrupt=run.allow_busy, upgrade=run.upgrade, uninstall=run.remove_foreign_driver
        )

    def mends(self) -> None:
        """From now on a broken package manager is repaired."""
        self._consent = replace(self._consent, repair=True)

    def way(self, *, now: bool = False, given_up: bool = False) -> Way:
        return Way(
            deadline_s=round(self._visit.reboot_timeout_s),
            cards=trial.cards(self._visit.seen),
            now=now,
            given_up=given_up,
            untried=self.untried,
        )

    def plan_of_all(self, agreed: Collection[str] | None) -> Planned:
        """Of all deploys: what stands in the way of one may have gone, and is told else."""
        return self._plan(self._run.deploys, agreed)

    def plan(self, way: Way | None = None) -> Planned:
        return self._plan(self._deploys, self.agreed, way)

    def plan_anew(self) -> Planned:
        with self._visit.stage("verify"):
            self._visit.look()
            return self.plan()

    def apply(self, stage: str = "change", way: Way | None = None) -> None:
        visit = self._visit
        visit.take_lock()
        with visit.stage(stage):
            visit.touched = True
            if trial.is_trial(visit.seen):  # before its time is over, in the middle of this
                visit.seat.run(trial.CONFIRM, b"", _ANSWER_S)
            self._engine.apply(
                visit.wanted.name,
                self._deploys,
                agreed=self.agreed,
                consent=self._consent,
                way=way or self.way(),
                tell=self._tell_of_concern,
            )

    def verify(self) -> None:
        """Declared has to be live, not merely written."""
        planned = self.plan_anew()
        if planned.pending:
            subjects = ", ".join(change.subject for change in planned.changes) or "something"
            raise DeployError(f"{subjects} is still not as declared after it was changed")

    def _plan(
        self, deploys: Sequence[Path], agreed: Collection[str] | None, way: Way | None = None
    ) -> Planned:
        planned = self._engine.plan(
            self._visit.wanted.name,
            deploys,
            agreed=agreed,
            consent=self._consent,
            way=way or self.way(),
        )
        self.owed = planned.owed
        return planned

    @property
    def _deploys(self) -> list[Path]:
        return [path for path in self._run.deploys if path.stem not in self.impossible]

    def _tell_of_concern(self, concern: str) -> None:
        if any(change.concern == concern for change in self._result.changes):
            self._visit.tell(f"change: {concern}")
