"""All that a capture is made of and judged by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from rigops.capture.block_devices import BlockDevices
from rigops.capture.controller import Controller
from rigops.concerns.borg import record as borg_record
from rigops.concerns.borg.record import BorgState
from rigops.concerns.snapshots import record as snapshots_record
from rigops.concerns.snapshots.record import SnapshotsState
from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.model import Borg, Snapshots
from rigops.json_fields import readable
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.proc_cmdline import SECTION as COMMAND_LINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.storage import SECTION as STORAGE
from rigops.probe.snapshot import HostSnapshot
from rigops.record import journal
from rigops.record.journal import PYINFRA, Run
from rigops.record.lockfile import LockedHost

_BACK: Final = frozenset({"rollback", "release"})
_APPLIES: Final = frozenset({"apply", "rollback", "release", PYINFRA, ""})


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`locked`: of the lockfile beside the inventory. `runs`: of this machine's journal.

    `digest`: of the inventory. `most_days`: how old a backup, and its verification, may be.
    `login`: whom rigops logs in as.
    """

    host: str
    examined: Examined
    locked: LockedHost | None
    controller: Controller
    at: str
    runs: tuple[Run, ...] = ()
    digest: str = ""
    most_days: int = 2
    login: str | None = None
    accepts_no_driver: bool = False  # after the reinstall, although there is one now

    @property
    def snapshot(self) -> HostSnapshot:
        return self.examined.snapshot

    @property
    def spec(self) -> RigSpec:
        return self.examined.spec

    @property
    def records(self) -> Mapping[str, str] | None:
        """None: they were not collected whole."""
        answer = self.snapshot[RIGOPS_STATE]
        if answer.value is None or not answer.is_complete:
            return None
        return answer.value.records

    @property
    def managed_borg(self) -> Borg | None:
        declared = self.spec.borg
        return declared if declared and declared.managed and declared.repository else None

    @property
    def watched_borg(self) -> Borg | None:
        declared = self.spec.borg
        return declared if declared and not declared.managed else None

    @property
    def sent_snapshots(self) -> Snapshots | None:
        """Those that leave the disk."""
        declared = self.spec.snapshots
        return declared if declared and declared.subvolumes and declared.send_to else None

    @cached_property
    def borg_state(self) -> BorgState | None:
        return readable(borg_record.parse, (self.records or {}).get(borg_record.PATH))

    @cached_property
    def snapshots_state(self) -> SnapshotsState | None:
        return readable(snapshots_record.parse, (self.records or {}).get(snapshots_record.PATH))

    @property
    def repository(self) -> str:
        """Where the archives are; empty where there are none, or nobody knows."""
        return (self.managed_borg.repository or "") if self.managed_borg else ""

    @cached_property
    def blocks(self) -> BlockDevices:
        return BlockDevices(
            self.snapshot[IDENTITY].or_empty,
            self.snapshot[STORAGE].or_empty.mounts or (),
            self.snapshot[COMMAND_LINE].or_empty.arguments,
        )

    @cached_property
    def last_apply(self) -> Run | None:
        """By the journals of both sides: a run that changes nothing is on this one alone."""
        state = self.snapshot[RIGOPS_STATE].or_empty
        there = journal.parse(line.encode() for line in state.journal).runs
        every = journal.with_others(self.runs, there)
        return max(filter(_counts, every), key=lambda one: one.at, default=None)


def _counts(run: Run) -> bool:
    """Whether the host is what this run made of it; one that was refused made nothing."""
    is_cut_off = run.outcome in {"failed", "interrupted"}
    is_left_alone = run.outcome == "refused" or (is_cut_off and not run.touched)
    return run.command in _APPLIES and not (run.command in _BACK and is_left_alone)


def state_line(line: str) -> tuple[Evidence, ...]:
    return (Evidence(RIGOPS_STATE.name, line),) if line else ()
