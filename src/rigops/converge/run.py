"""The stages of an apply, for one host each: whatever one raises is that host's own trouble.

reach, probe, plan; then, with consent: change, reboot, verify, preflight. Every stage looks at the
host as it is, so that an apply that was interrupted anywhere is finished by the next one.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.converge.concerns import Selection, blocked, deploys, keys_of
from rigops.converge.debts import added_arguments, reboot_reasons
from rigops.converge.engine import DeployError, Engine, on_each
from rigops.converge.reboot import reboot
from rigops.converge.result import Blocked, Error, HostResult, Stage
from rigops.errors import RigopsError
from rigops.facts.sections import SEEDED
from rigops.preflight.run import prove
from rigops.probe import facts as probe_facts
from rigops.probe.collect import collect
from rigops.probe.sections import boot, bootloader, proc_cmdline, rigops_state
from rigops.transport import HostKeyPolicy, TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rigops.converge.result import Outcome
    from rigops.probe.facts import HostFacts
    from rigops.spec import RigSpec
    from rigops.transport import Connection, Target

SECTIONS: Final = (
    boot.SECTION,
    proc_cmdline.SECTION,
    bootloader.SECTION,
    rigops_state.SECTION,
)
REBOOT_TIMEOUT_S: Final = 900


@dataclass(frozen=True)
class Wanted:
    """A host of the inventory and what was declared for it."""

    name: str
    target: Target
    data: Mapping[str, object]
    spec: RigSpec


@dataclass
class _Rig:
    wanted: Wanted
    result: HostResult
    connection: Connection | None = None
    facts: HostFacts | None = None
    ours: tuple[str, ...] = ()  # the kernel arguments that rigops had added before this run
    began: float = field(default_factory=time.monotonic)


class Apply:
    def __init__(
        self,
        hosts: Sequence[Wanted],
        selection: Selection,
        host_keys: HostKeyPolicy,
        tell: Callable[[str, str], None],
    ) -> None:
        self._rigs = {one.name: _Rig(one, HostResult(one.name)) for one in hosts}
        self._selection = selection
        self._host_keys = host_keys
        self._tell = tell
        self._deploys = deploys(selection)
        self._engine = Engine({one.name: one.data for one in hosts})

    @property
    def results(self) -> list[HostResult]:
        return [rig.result for rig in self._rigs.values()]

    def seconds(self, host: str) -> float:
        return time.monotonic() - self._rigs[host].began

    def plan(self) -> None:
        """Reach every host and see what is to be done. Touches nothing."""
        for name, outcome in on_each(self._rigs, self._plan).items():
            if isinstance(outcome, BaseException):
                self._record(self._rigs[name], outcome, changed=False)

    def change(self, name: str, *, may_reboot: bool, with_preflight: bool) -> None:
        """Everything that follows consent, on one host."""
        rig = self._rigs[name]
        try:
            self._change(rig, may_reboot=may_reboot, with_preflight=with_preflight)
        except KeyboardInterrupt:
            rig.result.outcome = "interrupted"
            raise
        except BaseException as error:  # noqa: BLE001 - kept as the host's result
            self._record(rig, error, changed=True)

    def close(self) -> None:
        for rig in self._rigs.values():
            if rig.connection is not None:
                rig.connection.close()

    def _plan(self, name: str) -> None:
        rig = self._rigs[name]
        with self._stage(rig, "reach"):
            rig.connection = connect(rig.wanted.target, host_keys=self._host_keys)
        with self._stage(rig, "probe"):
            facts = self._look(rig)
            rig.ours = added_arguments(facts)
        with self._stage(rig, "plan"):
            planned = self._engine.plan(name, self._deploys)
        result = rig.result
        result.changes = planned.changes
        if not planned.blocked:  # a reboot brings nothing that could not be configured
            result.reboot_reasons = self._debts(rig)
        result.blocked = blocked(rig.wanted.spec, self._selection) + tuple(
            Blocked(concern, keys_of(concern, rig.wanted.spec), reason)
            for concern, reason in planned.blocked
        )
        if not planned.pending and not result.reboot_reasons and not result.blocked:
            result.outcome = "converged"

    def _change(self, rig: _Rig, *, may_reboot: bool, with_preflight: bool) -> None:
        result = rig.result
        debts = result.reboot_reasons
        if result.changes:
            with self._stage(rig, "change"):
                self._engine.apply(rig.wanted.name, self._deploys)
        if debts and may_reboot:
            with self._stage(rig, "reboot"):
                self._reboot(rig)
        if result.changes or debts:
            with self._stage(rig, "verify"):
                self._look(rig)
                debts = self._debts(rig)
                self._verify(rig, debts, rebooted=bool(result.reboot_reasons) and may_reboot)
        result.outcome = _outcome(result, owed=bool(debts))
        if with_preflight and not debts:
            with self._stage(rig, "preflight"):
                self._prove(rig)

    def _look(self, rig: _Rig) -> HostFacts:
        connection = _reached(rig)
        bundle = collect(connection, SECTIONS, host=rig.wanted.name).bundle
        if not bundle.root:
            raise NoRootError(rig.wanted.name)
        rig.facts = probe_facts.read(bundle)
        known = [
            (fact, fact.section.parse(bundle.sections[fact.section.name].text))
            for fact in SEEDED
            if fact.section.name in bundle.sections and bundle.sections[fact.section.name].whole
        ]
        self._engine.attach(rig.wanted.name, connection, known)
        return rig.facts

    def _debts(self, rig: _Rig) -> tuple[str, ...]:
        if rig.facts is None:
            return ()
        return reboot_reasons(rig.facts, rig.wanted.spec, self._selection, rig.ours)

    def _reboot(self, rig: _Rig) -> None:
        name, spec = rig.wanted.name, rig.wanted.spec
        rig.connection = reboot(
            _reached(rig),
            rig.wanted.target,
            deadline_s=spec.reboot_timeout or REBOOT_TIMEOUT_S,
            waiting=lambda elapsed: self._tell(name, f"rebooting, {elapsed:.0f} s"),
        )

    def _verify(self, rig: _Rig, debts: Sequence[str], *, rebooted: bool) -> None:
        """Declared has to be live, not merely written."""
        planned = self._engine.plan(rig.wanted.name, self._deploys)
        if planned.pending:
            subjects = ", ".join(change.subject for change in planned.changes) or "something"
            raise DeployError(f"{subjects} is still not as declared after it was changed")
        if rebooted and debts:
            raise DeployError(f"after the reboot {'; '.join(debts)}")

    def _prove(self, rig: _Rig) -> None:
        target = rig.wanted.target
        rig.result.preflight = prove(
            rig.wanted.name,
            _reached(rig),
            rig.wanted.spec,
            level="p2p",
            reconnect=lambda: connect(target, host_keys=HostKeyPolicy()),
            progress=lambda text: self._tell(rig.wanted.name, text),
        )

    @contextmanager
    def _stage(self, rig: _Rig, stage: str) -> Iterator[None]:
        self._tell(rig.wanted.name, stage)
        began = time.monotonic()
        try:
            yield
        finally:
            rig.result.stages.append(Stage(stage, time.monotonic() - began))

    def _record(self, rig: _Rig, error: BaseException, *, changed: bool) -> None:
        rig.result.error = _error(error)
        unreached = isinstance(error, (TransportError, NoRootError)) and not changed
        rig.result.outcome = "unreachable" if unreached else "failed"


class NoRootError(Exception):
    def __init__(self, host: str) -> None:
        super().__init__(f"{host}: the login is neither root nor allowed to use sudo")


def _reached(rig: _Rig) -> Connection:
    if rig.connection is None:
        raise DeployError("the host was not reached")
    return rig.connection


def _outcome(result: HostResult, *, owed: bool) -> Outcome:
    if owed:
        return "reboot_owed"
    if result.blocked and not result.pending:
        return "refused"
    return "changed" if result.pending else "converged"


def _error(error: BaseException) -> Error:
    if isinstance(error, TransportError):
        return Error(error.kind, str(error), error.problems[0].cure)
    if isinstance(error, NoRootError):
        return Error(
            "sudo",
            str(error),
            "log in as root, or let this user run sudo without a password",
        )
    if isinstance(error, RigopsError):
        return Error("failed", str(error), error.problems[0].cure)
    if isinstance(error, DeployError):
        return Error("failed", str(error))
    return Error("failed", f"{type(error).__name__}: {error}")
