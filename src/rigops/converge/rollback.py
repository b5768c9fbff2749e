"""Rollbacks of a host: its root to a snapshot, its configuration to earlier declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.root_change import read_root_change
from rigops.concerns import registry
from rigops.concerns.concern import HostRequest
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.converge.host_run import FRESH_S, HostRun
from rigops.converge.request import RunOptions
from rigops.converge.root_snapshot import ask_program
from rigops.errors import Problem, RigopsError
from rigops.hosts.access import HostAccess
from rigops.json_fields import readable
from rigops.python_literal import literal
from rigops.record import declared
from rigops.record.declared import DeclaredKeys
from rigops.transport import connect

_COMMAND: Final = "rollback-root"
_SEE: Final = (
    "run this again; if it stays so, `cat /proc/cmdline` and `findmnt /` there show which root "
    "the boot menu names"
)


class RootRollback(HostRun):
    """The program of the host puts the root in force, a reboot starts it.

    The present root stays aside. Running programs go on writing there until the reboot.
    `at`: a time in UTC, the name of a snapshot, or empty for the newest that apply took.
    """

    def __init__(self, request: HostRequest, options: RunOptions, engine: Engine, at: str) -> None:
        super().__init__(request, options, engine)
        self._at = at

    def plan(self) -> None:
        session = self._session
        session.reach()
        session.probe()
        with session.stage("plan"):
            words = ("--at", self._at) if self._at else ()
            change = read_root_change(self.request.name, self._ask("--dry-run", *words))
        self.result.root_change = change
        self.result.notices = change.notices
        self.result.reboot_reasons = (f"the root becomes that of the snapshot {change.snapshot}",)
        session.find_reboot_impact()

    def renew(self) -> None:
        """The program looks at everything again before it changes anything."""
        if self._session.since_snapshot_s >= FRESH_S:
            self._session.reach_again()
            self._session.probe()

    def change(self) -> None:
        """Nothing without the reboot: until then the root that goes would be written to."""
        self.result.outcome = "reboot_owed"

    def restart(self) -> None:
        session, change = self._session, self.result.root_change
        session.reach_again()
        impact = session.find_reboot_impact()
        if change is None or self._waits_for_jobs(impact):
            self.result.outcome = "refused"
            return
        with session.stage("rollback"):
            session.take_lock()
            session.touched = True
            change = read_root_change(self.request.name, self._ask("--at", change.snapshot))
        self.result.root_change = change
        self.result.story.append(f"the previous root stays as {change.aside} on its file system")
        if self.request.target.local:
            session.order_reboot()
            self.result.story.append("after the reboot, prove it: rigops apply")
            return
        session.release()
        session.reboot(impact, session.reboot_timeout_s)
        session.probe("verify")
        with session.stage("verify"):
            done = self._ask("--finish").get("rolled_back")
        if not (isinstance(done, dict) and done.get("is_running") is True):
            raise DeployError(
                "after the reboot the machine does not run the snapshot's root", fix=_SEE
            )
        self.result.snapshot = change.snapshot
        self.result.outcome = "changed"
        with session.stage("plan"):
            plan = session.plan_all()
            if plan.pending or plan.blocked:
                self.result.story.append(
                    "the inventory declares settings that are not in force there now: rigops plan "
                    f"--limit {self.request.name}"
                )

    def _ask(self, *words: str) -> ProgramResult:
        return ask_program(self._session.channel, _COMMAND, *words)


_READ_S: Final = 30.0
_DRIVER: Final = "nvidia_driver"


def earlier_request(request: HostRequest, access: HostAccess) -> HostRequest:
    """With the keys that were declared before; those of the driver stay as in the inventory."""
    with connect(request.target, host_keys=access.host_keys) as connection:
        done = connection.run(["cat", declared.PATH], deadline_s=_READ_S)
    record = readable(DeclaredKeys.from_json, done.stdout.decode(errors="replace"))
    if record is None or record.before is None:
        raise RigopsError(
            Problem(
                message="no earlier configuration that worked is recorded there",
                host=request.name,
                fix="change the inventory, and apply it; the next apply that works is recorded",
            )
        )
    stays = {name: value for name, value in request.data.items() if not _goes_back(name)}
    data = {**stays, **{name: v for name, v in record.before.items() if _goes_back(name)}}
    return replace(request, data=data, spec=registry.read(data))


def lines_to_change(inventory: Mapping[str, object], earlier: HostRequest) -> Iterator[str]:
    """Of the inventory, which still has what was gone back from."""
    for name in sorted({*inventory, *earlier.data}):
        if not _goes_back(name) or inventory.get(name) == earlier.data.get(name):
            continue
        if name in earlier.data:
            yield f"write {literal(name)}: {literal(earlier.data[name])}, in the inventory"
        else:
            yield f"remove {literal(name)} from the inventory"


def _goes_back(name: str) -> bool:
    key = registry.keys().get(name)
    return key is not None and not key.stays_here and registry.concern_of(name) != _DRIVER
