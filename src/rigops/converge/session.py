"""One host during a run: connection, privilege, lock, snapshot, and the deploys run on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rigops.concerns import registry
from rigops.concerns.concern import HostRequest
from rigops.converge import reboot_impact
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.converge.gpu_containers import SYSTEMD
from rigops.converge.lock import ApplyLock, take, work_argv
from rigops.converge.reboot import order_only, reboot
from rigops.converge.reboot_impact import RebootImpact
from rigops.converge.request import RunOptions
from rigops.converge.result import HostResult, Stage
from rigops.converge.snapshot import RunSnapshot, take_snapshot
from rigops.hosts.access import HostAccess
from rigops.inventory.spec import RigSpec
from rigops.plan.change import Plan
from rigops.plan.context import Consent, TrialOptions
from rigops.record.trial_boot import CONFIRM
from rigops.transport import Connection, TransportError, connect
from rigops.transport.privilege import WITHOUT_PASSWORD

REBOOT_TIMEOUT_S: Final = 900
_LOCK_S: Final = 600.0
_LAST_RESORT_S: Final = 120.0
_ANSWER_S: Final = 20.0


class HostSession:
    """`touched`: something may have been changed on the host. `rebooted`: its reboot was ordered.

    `blocked_concerns`: nothing is changed for them. `reboot_reasons`: of the last plan, by concern.
    `shown`: the plan that was confirmed; nothing else is applied.
    """

    def __init__(
        self, request: HostRequest, options: RunOptions, engine: Engine, result: HostResult
    ) -> None:
        self.request = request
        self.touched = False
        self.rebooted = False
        self.stage_now = ""
        self.consent = Consent(
            interrupt=options.allow_busy,
            upgrade=options.upgrade,
            uninstall=options.remove_foreign_driver,
            keep_holds=options.keep_holds,
        )
        self.blocked_concerns: frozenset[str] = frozenset()
        self.reboot_reasons: tuple[tuple[str, str], ...] = ()
        self.shown = Plan()
        self.last_snapshot: RunSnapshot | None = None
        self._options = options
        self._engine = engine
        self._result = result
        self._privilege = WITHOUT_PASSWORD
        self._connection: Connection | None = None
        self._channel: HostChannel | None = None
        self._lock: ApplyLock | None = None
        self._began = self._snapshot_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def since_snapshot_s(self) -> float:
        return time.monotonic() - self._snapshot_at

    @property
    def snapshot(self) -> RunSnapshot:
        if self.last_snapshot is None:
            raise DeployError("the host was not probed")
        return self.last_snapshot

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            raise DeployError("the host was not reached")
        return self._connection

    @property
    def channel(self) -> HostChannel:
        if self._channel is None:
            raise DeployError("the host was not probed")
        return self._channel

    @property
    def reboot_timeout_s(self) -> float:
        return self.request.spec.reboot_timeout or REBOOT_TIMEOUT_S

    def tell(self, text: str) -> None:
        self._options.tell(self.request.name, text)

    @contextmanager
    def stage(self, stage: str) -> Iterator[None]:
        self.tell(stage)
        self.stage_now = stage
        began = time.monotonic()
        try:
            yield
        finally:
            self._result.stages.append(Stage(stage, time.monotonic() - began))
        self.stage_now = ""

    # Connection, snapshot and lock

    def reach(self) -> None:
        with self.stage("reach"):
            self._reach(self._options.access)

    def reach_again(self) -> None:
        """Unless the connection still answers."""
        try:
            self.connection.run(["true"], deadline_s=_ANSWER_S)
        except TransportError:
            self.connection.close()
            with self.stage("reach"):
                self._reach(HostAccess(sudo_password=self._options.access.sudo_password))

    def _reach(self, access: HostAccess) -> None:
        self._connection = connect(self.request.target, host_keys=access.host_keys)
        self._privilege = access.privilege(self._connection)

    def probe(self, stage: str = "probe") -> RunSnapshot:
        with self.stage(stage):
            return self._probe()

    def _probe(self) -> RunSnapshot:
        channel = HostChannel(self.connection, self._privilege, work_argv, tell=self.tell)
        name = self.request.name
        names = {path.stem for path in self._options.deploys}
        selected = [one for one in registry.CONCERNS if one.name in names]
        snapshot = take_snapshot(self.connection, self._privilege, selected, self.request.spec)
        channel.cache.seed_files(snapshot.paths, snapshot.files)
        self._engine.attach(name, channel, snapshot.known)
        self._engine.provide(name, snapshot.lost)
        for one in selected:
            if one.provide is not None:
                self._engine.provide(name, one.provide(self.request))
        self._channel, self.last_snapshot = channel, snapshot
        self._snapshot_at = time.monotonic()
        return snapshot

    def take_lock(self) -> None:
        if self._lock is not None and self._lock.held:
            return
        self._lock = take(
            self.connection,
            self._privilege,
            replace(self._options.holder, command=self._options.command),
            tell=self.tell,
            deadline_s=_LOCK_S,
        )
        if self._lock.notice:
            self._result.story.append(self._lock.notice)

    @contextmanager
    def locked_channel(self, stage: str) -> Iterator[HostChannel]:
        with self.stage(stage):
            self.take_lock()
            yield self.channel

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # Reboot

    def find_reboot_impact(self) -> RebootImpact:
        impact = reboot_impact.find(self.connection, self._privilege)
        self._result.reboot_hits = impact.lines()
        return impact

    def order_reboot(self) -> None:
        """Of the machine that this runs on, which ends with it."""
        with self.stage("reboot"):
            order_only(self.connection, self._privilege)
            self.rebooted = True

    def reboot(self, impact: RebootImpact, patience_s: float) -> None:
        with self.stage("reboot"):
            self._connection = reboot(
                self.connection,
                self.request.target,
                self._privilege,
                deadline_s=patience_s,
                waiting=self._wait_for_reboot,
                last_resort_s=min(_LAST_RESORT_S, self.reboot_timeout_s / 3)
                if impact.wedged
                else None,
            )

    def _wait_for_reboot(self, _: float) -> None:
        self.rebooted = True  # nobody waits for one that was refused
        trial = " ".join(self.shown.trial_arguments)
        self.tell(f"reboot, {f'trial boot with {trial}, ' if trial else ''}waiting for it")

    # Deploys

    def trial_options(
        self,
        *,
        now: bool = False,
        given_up: bool = False,
        failed: str = "",
        tried: tuple[str, ...] = (),
    ) -> TrialOptions:
        return TrialOptions(
            deadline_s=round(self.reboot_timeout_s),
            cards=self.snapshot.cards,
            now=now,
            given_up=given_up,
            failed=failed,
            tried=tried,
        )

    def plan_all(self, *, all_removals: bool = False) -> Plan:
        """Of all deploys, blocked ones too: what blocked a concern may have gone."""
        consent = replace(self.consent, removals=None) if all_removals else self.consent
        return self._plan(self._options.deploys, consent, self.trial_options())

    def plan(self, trial: TrialOptions | None = None) -> Plan:
        return self._plan(self._deploys, self.consent, trial or self.trial_options())

    def plan_again(self) -> Plan:
        with self.stage("verify"):
            self._probe()
            return self.plan()

    def apply(self, stage: str = "change", trial: TrialOptions | None = None) -> None:
        """A trial boot that is undone needs no plan: it takes back what this run itself did."""
        self.take_lock()
        is_undo = trial is not None and trial.given_up
        with self.stage(stage):
            self.touched = True
            self.confirm_trial()  # before its time is over, in the middle of this
            self._engine.apply(
                self.request.name,
                self._deploys,
                consent=self.consent,
                trial=trial or self.trial_options(),
                shown=None if is_undo else self.shown,
                tell=self._begin_concern,
            )
            is_owed = bool(self._unread) and SYSTEMD not in self.blocked_concerns
            if self.channel.has_changed_units or is_owed:
                self.channel.reload()
            self._begin_concern("")

    def confirm_trial(self) -> None:
        """A boot that tries arguments goes on, which are not those of the next one for that."""
        if self.snapshot.is_trial:
            self.channel.run(CONFIRM, b"", _ANSWER_S)

    def verify(self) -> Plan:
        """Declared has to be live, not merely written."""
        plan = self.plan_again()
        if plan.blocked:
            raise DeployError("; ".join(reason for _, reason in plan.blocked))
        if plan.pending:
            left = [change.subject for change in plan.changes]
            left += [record for _, record in plan.housekeeping]
            subjects = ", ".join(left) or "something"
            raise DeployError(f"{subjects} is still not as declared after it was changed")
        return plan

    def _plan(self, deploys: Sequence[Path], consent: Consent, trial: TrialOptions) -> Plan:
        planned = self._engine.plan(
            self.request.name,
            deploys,
            consent=consent,
            trial=trial,
            reboot_reasons=partial(_reboot_reasons, self.request.spec),
        )
        self.reboot_reasons = planned.reboot_reasons
        if self._unread:  # by an interrupted run
            planned.headlines += ((SYSTEMD, "reload systemd"),)
            planned.housekeeping += ((SYSTEMD, f"its copy of {', '.join(self._unread)}"),)
        return planned

    @property
    def _unread(self) -> tuple[str, ...]:
        return self.snapshot.state.unread if self.snapshot.state else ()

    @property
    def _deploys(self) -> list[Path]:
        return [path for path in self._options.deploys if path.stem not in self.blocked_concerns]

    def _begin_concern(self, concern: str) -> None:
        """The one before it has come to its end."""
        if self._result.making:
            self._result.made.append(self._result.making)
        self._result.making = concern
        if any(change.concern == concern for change in self.shown.changes):
            self.tell(f"change: {concern}")


def _reboot_reasons(spec: RigSpec) -> Iterator[tuple[str, str]]:
    """Of every concern, selected or not, by its name."""
    for one in registry.in_this_version():
        yield from ((one.name, reason) for reason in one.reboot_reasons(spec))
