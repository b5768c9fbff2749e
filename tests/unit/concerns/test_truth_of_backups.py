"""Whether backups and snapshots are well has one answer: for doctor, the self-check and capture.

Each row is what the last run wrote down, and when somebody asks. capture asks more: whether the
newest copy is good enough for a wipe.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from rigops.capture.describe import describe
from rigops.capture.requirements.backups import judge_backups
from rigops.concerns.borg import decide as borg_decide
from rigops.concerns.borg import record as borg_record
from rigops.concerns.snapshots import decide as snapshots_decide
from rigops.concerns.snapshots import record as snapshots_record
from rigops.doctor.registry import CHECKS
from rigops.hostside.packing import pack
from rigops.probe.sections.rigops_state import OWNED_FILES, OWNED_UNITS
from tests.unit import programs
from tests.unit.capture.rigs import subject
from tests.unit.doctor.examining import check_of, judge, spec
from tests.unit.hostside.waiting import PATIENCE_S
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

Status = Literal[
    "well",
    "old",
    "said",
    "none yet",
    "in doubt",
    "late",
    "failing",
    "ahead",
    "unknown",
    "to come",
    "runs",
]
Answer = tuple[str, str, str]

NOW: Final = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
NIGHT_OFF: Final = timedelta(minutes=10)
DAYS_UP: Final = timedelta(days=25)
REPOSITORY: Final = "/mnt/backup/rig"
DISK: Final = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
BORG: Final[Mapping[str, Any]] = {
    "repository": REPOSITORY, "paths": ["/home"], "passphrase_command": "pass show rig",
}  # fmt: skip
SNAPSHOTS: Final[Mapping[str, Any]] = {"subvolumes": ["/", "/home"], "keep": "24h 7d"}
SENT: Final[Mapping[str, Any]] = {"subvolumes": ["/home"], "keep": "7d", "send_to": DISK}
# What doctor, the self-check and capture say of each.
ANSWERS: Final[Mapping[Status, Answer]] = {
    "well": ("ok", "ok", "ok"),
    "old": ("ok", "ok", "fail"),  # for a wipe
    "said": ("info", "ok", "ok"),
    "none yet": ("info", "ok", "fail"),
    "in doubt": ("warn", "warn", "ok"),
    "late": ("warn", "warn", "fail"),
    "failing": ("fail", "fail", "fail"),
    "ahead": ("warn", "warn", "unknown"),
    "unknown": ("unknown", "unknown", "unknown"),
    "to come": ("info", "ok", "unknown"),
    "runs": ("ok", "ok", "unknown"),  # how it ends is to be seen
}
# Which of its requirements asks the same; of others capture asks nothing.
CAPTURED: Final = {
    "borg.age": "borg.newest", "borg.repository": "borg.newest", "borg.drill": "borg.verified",
    "snap.target": "snapshots.sent",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """`noted`: what is otherwise in the record; None: there is none. `uptime`: since the boot."""

    key: str
    expected: Status
    noted: Mapping[str, Any] | str | None = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    uptime: timedelta = DAYS_UP
    subject: str = ""

    @property
    def is_borg(self) -> bool:
        return self.key.startswith("borg")

    @property
    def spec(self) -> RigSpec:
        return spec(**self.inventory)

    @property
    def inventory(self) -> dict[str, Any]:
        if self.is_borg:
            return {"borg": {**BORG, **self.declared}}
        return {
            "snapshots": {**(SENT if self.key == "snap.target" else SNAPSHOTS), **self.declared}
        }

    @property
    def text(self) -> str | None:
        """The record of the last run."""
        if self.noted is None or isinstance(self.noted, str):
            return self.noted
        well = ran_borg(**self.noted) if self.is_borg else ran_snapshots(**self.noted)
        return json.dumps(well)

    @property
    def texts(self) -> dict[str, Any]:
        """What doctor and capture have collected."""
        path = borg_record.PATH if self.is_borg else snapshots_record.PATH
        unit = "rigops-borg.timer" if self.is_borg else "rigops-snapshots.timer"
        written = f"== {path}\n{self.text}\n" if self.text is not None else ""
        shown = f"Id={unit}\nActiveState=active\nUnitFileState=enabled\nDropInPaths=\n"
        return {
            "rigops_state": f"{written}== {OWNED_FILES}\n== {OWNED_UNITS}\n{shown}",
            "boot": f"== /proc/uptime\n{self.uptime.total_seconds():.2f} 1.00\n"
            f"== date +%s\n{NOW.timestamp():.0f}\n",
        }


def ago(days: float = 0, **more: float) -> str:
    return f"{NOW - timedelta(days=days, **more):%Y-%m-%dT%H:%M:%SZ}"


def ran_borg(**changed: Any) -> dict[str, Any]:
    repository = {
        "id": "0f" * 32, "location": REPOSITORY, "state": "ok", "error": None, "fix": None,
        "archives": 3, "lock": None, **changed.pop("repository", {}),
    }  # fmt: skip
    return {
        "schema": borg_record.SCHEMA,
        "at": ago(hours=1),
        "since": ago(300),
        "repository": repository,
        "newest_at": ago(hours=1),
        "last_check": {"at": ago(20), "result": "ok"},
        "last_drill": {"at": ago(1), "result": "ok", "files": 20},
        **changed,
    }


def ran_snapshots(**changed: Any) -> dict[str, Any]:
    here = {"newest_at": ago(hours=0.5), "error": None}
    there = {
        "name": DISK, "state": "present", "newest_at": {"/home": ago(hours=1)}, "error": None,
        "seen_at": ago(hours=1), **changed.pop("target", {}),
    }  # fmt: skip
    return {
        "schema": snapshots_record.SCHEMA,
        "at": ago(hours=0.5),
        "subvolumes": {"/": here, "/home": {**here, **changed.pop("home", {})}},
        "target": there,
        "nested": {},
        **changed,
    }


def repository(state: str, **more: Any) -> dict[str, Any]:
    return {"repository": {"state": state, "error": f"{REPOSITORY}: why", **more}}


def locked(hours: float, **more: Any) -> dict[str, Any]:
    lock = {"host": "nas", "pid": 7, "age_s": hours * 3600}
    return {**repository("locked", lock=lock), "at": ago(), **more}


NEVER: Final = {"last_check": None, "last_drill": None}
ROWS: Final[Mapping[str, Row]] = {
    # the age of the newest backup
    "borg is well": Row("borg.age", "well"),
    "no run yet": Row("borg.age", "none yet", None),
    "the record is no JSON": Row("borg.age", "unknown", "{"),
    "the record is empty": Row("borg.age", "unknown", ""),
    "the record is of a newer one": Row("borg.age", "unknown", {"schema": "rigops.borg_state/9"}),
    "the record has no repository": Row("borg.age", "unknown", {"repository": {"location": None}}),
    "a backup is late by less than a run": Row("borg.age", "well", {"newest_at": ago(1.9)}),
    "a backup is late by more than a run": Row("borg.age", "late", {"newest_at": ago(2.1)}),
    "a backup is late by a week's end": Row("borg.age", "late", {"newest_at": ago(7.9)}),
    "a backup is late by more": Row("borg.age", "failing", {"newest_at": ago(8.1)}),
    "an hourly backup is 3 h old": Row(
        "borg.age", "in doubt", {"newest_at": ago(hours=3)}, {"schedule": "hourly"}
    ),
    "a weekly backup is 13 days old": Row(
        "borg.age", "old", {"newest_at": ago(13)}, {"schedule": "weekly"}
    ),
    "a weekly backup is 15 days old": Row(
        "borg.age", "late", {"newest_at": ago(15)}, {"schedule": "weekly"}
    ),
    "a monthly backup is 61 days old": Row(
        "borg.age", "old", {"newest_at": ago(61)}, {"schedule": "monthly"}
    ),
    "a backup by hours to keep is late by less than a day": Row(
        "borg.age", "well", {"newest_at": ago(1.9)}, {"schedule": "Mon 03:00", "keep": "24h"}
    ),
    "a backup by keep alone is late": Row(
        "borg.age", "late", {"newest_at": ago(15)}, {"schedule": "Mon 03:00", "keep": "4w"}
    ),
    "a backup is of yesterday after a night off": Row(
        "borg.age", "well", {"newest_at": ago(1)}, uptime=NIGHT_OFF
    ),
    "a backup is seven days old after a week off": Row(
        "borg.age", "old", {"newest_at": ago(7)}, uptime=NIGHT_OFF
    ),
    "a backup is seven days old, 114 min after a week off": Row(
        "borg.age", "old", {"newest_at": ago(7)}, uptime=timedelta(hours=1.9)
    ),
    "a backup is nine days old at a boot": Row(
        "borg.age", "failing", {"newest_at": ago(9)}, uptime=NIGHT_OFF
    ),
    "no drill yet, by an older rigops": Row("borg.drill", "late", {**NEVER, "since": None}),
    "a backup is three days old after a weekend off": Row(
        "borg.age", "old", {"newest_at": ago(3)}, uptime=NIGHT_OFF
    ),
    "no archive was ever whole": Row("borg.age", "failing", {"newest_at": None}),
    "all archives are gone": Row("borg.age", "failing", {"repository": {"archives": 0}}),
    "the clock is behind the newest backup": Row("borg.age", "ahead", {"newest_at": ago(-3)}),
    "the clock is three minutes behind": Row("borg.age", "ahead", {"newest_at": ago(minutes=-3)}),
    "the clock is a minute behind": Row("borg.age", "well", {"newest_at": ago(minutes=-1)}),
    "another repository was declared since": Row(
        "borg.age", "late", declared={"repository": "/mnt/new"}
    ),
    "the repository is declared with a login": Row(
        "borg.age", "well", {"repository": {"location": "ssh://nas/./rig"}},
        {"repository": "ssh://me@nas/./rig"},
    ),
    # the repository
    "the repository is well": Row("borg.repository", "well"),
    "the repository was not opened": Row("borg.repository", "failing", repository("failed")),
    "the disk of the source is gone": Row(
        "borg.repository", "failing", repository("failed", error="/home: missing, not backed up")
    ),
    "the disk of the repository is away": Row("borg.repository", "in doubt", repository("absent")),
    "the server is away": Row("borg.repository", "in doubt", repository("unreachable")),
    "archives are to be healed": Row("borg.repository", "in doubt", repository("to be healed")),
    "the state of the repository is a new word": Row(
        "borg.repository", "unknown", repository("dancing")
    ),
    "the repository was never checked": Row(
        "borg.repository", "said", {"last_check": None, "since": ago(1)}
    ),
    "it was never checked, and an older rigops wrote that down": Row(
        "borg.repository", "said", {"last_check": None, "since": None}
    ),
    "the first check is overdue": Row(
        "borg.repository", "in doubt", {"last_check": None, "since": ago(61)}
    ),
    "the check is late by less than its time": Row(
        "borg.repository", "well", {"last_check": {"at": ago(59), "result": "ok"}}
    ),
    "the check is overdue": Row(
        "borg.repository", "in doubt", {"last_check": {"at": ago(61), "result": "ok"}}
    ),
    "a check that is declared each week is overdue": Row(
        "borg.repository", "in doubt", {"last_check": {"at": ago(15), "result": "ok"}},
        {"check_every": "1w"},
    ),
    "the check is overdue after weeks off": Row(
        "borg.repository", "in doubt", {"last_check": {"at": ago(61), "result": "ok"}},
        uptime=NIGHT_OFF,
    ),
    "the check found damage": Row(
        "borg.repository", "failing", {"last_check": {"at": ago(1), "result": "failed"}}
    ),
    "the check found damage, and the disk is away": Row(
        "borg.repository", "failing",
        {**repository("absent"), "last_check": {"at": ago(1), "result": "failed"}},
    ),
    "the clock is behind the last check": Row(
        "borg.repository", "in doubt", {"last_check": {"at": ago(-3), "result": "ok"}}
    ),
    "the repository is locked, to its own check": Row("borg.repository", "well", locked(0.5)),
    # the lock
    "nobody has locked it": Row("borg.lock", "well"),
    "locked by others for 30 min": Row("borg.lock", "said", locked(0.5)),
    "locked by others for 23 h": Row("borg.lock", "said", locked(23)),
    "locked by others for a day": Row("borg.lock", "failing", locked(24)),
    "locked by others for 25 h by a run whose clock was ahead": Row(
        "borg.lock", "failing", locked(25, at=ago(hours=-3))
    ),
    "locked by others for 25 h": Row("borg.lock", "failing", locked(25)),
    "locked 30 min before the last run, two days ago": Row(
        "borg.lock", "failing", locked(0.5, at=ago(2))
    ),
    # the drill
    "the drill passed": Row("borg.drill", "well"),
    "no drill yet": Row("borg.drill", "none yet", {**NEVER, "since": ago(1)}),
    "the first drill is overdue": Row("borg.drill", "late", {**NEVER, "since": ago(41)}),
    "the drill is 39 days old": Row(
        "borg.drill", "old", {"last_drill": {"at": ago(39), "result": "ok"}}
    ),
    "the drill is overdue": Row(
        "borg.drill", "late", {"last_drill": {"at": ago(41), "result": "ok"}}
    ),
    "the drill failed": Row(
        "borg.drill", "failing",
        {"last_drill": {"at": ago(1), "result": "failed", "error": "2 files differ"}},
    ),
    "the result of the drill is a new word": Row(
        "borg.drill", "failing", {"last_drill": {"at": ago(1), "result": "dancing"}}
    ),
    "the drill found archives to be healed": Row(
        "borg.drill", "late", {"last_drill": {"at": ago(1), "result": "to be healed"}}
    ),
    "the clock is behind the last drill": Row(
        "borg.drill", "ahead", {"last_drill": {"at": ago(-3), "result": "ok"}}
    ),
    # what stays
    "nothing is held back from pruning": Row("borg.held", "well"),
    "archives are held back from pruning": Row(
        "borg.held", "in doubt", {"held": ["nothing is removed: the clock is behind"]}
    ),
    # the age of snapshots
    "snapshots are well": Row("snap.age", "well", subject="/home"),
    "no snapshot yet": Row("snap.age", "none yet", None),
    "the record of snapshots is no JSON": Row("snap.age", "unknown", "{"),
    "the record of snapshots is of a newer one": Row(
        "snap.age", "unknown", {"schema": "rigops.snapshots_state/9"}
    ),
    "the record of snapshots has none": Row("snap.age", "unknown", {"subvolumes": None}),
    "an hourly snapshot is late by less than an hour": Row(
        "snap.age", "well", {"home": {"newest_at": ago(hours=1.9)}}, subject="/home"
    ),
    "an hourly snapshot is late by more": Row(
        "snap.age", "failing", {"home": {"newest_at": ago(hours=2.1)}}, subject="/home"
    ),
    "a snapshot is 12 h old, 10 min after a night off": Row(
        "snap.age", "well", {"home": {"newest_at": ago(0.5)}}, subject="/home", uptime=NIGHT_OFF
    ),
    "a snapshot is 12 h old, 3 h after a night off": Row(
        "snap.age", "failing", {"home": {"newest_at": ago(0.5)}}, subject="/home",
        uptime=timedelta(hours=3),
    ),
    "the last run took none": Row(
        "snap.age", "failing", {"home": {"error": "/home is on another file system"}},
        subject="/home",
    ),
    "a subvolume has no snapshot": Row(
        "snap.age", "failing", {"home": {"newest_at": None}}, subject="/home"
    ),
    "a subvolume was declared since": Row(
        "snap.age", "in doubt", declared={"subvolumes": ["/", "/home", "/srv"]}, subject="/srv"
    ),
    "the clock is behind the newest snapshot": Row(
        "snap.age", "in doubt", {"home": {"newest_at": ago(-3)}}, subject="/home"
    ),
    "snapshots are held back from pruning": Row("snap.held", "in doubt", {"held": ["why"]}),
    # the disk that they are sent to
    "snapshots were sent": Row("snap.target", "well"),
    "nothing was sent since another disk was declared": Row(
        "snap.target", "none yet", {"target": {"name": "another"}}
    ),
    "sending failed": Row(
        "snap.target", "failing", {"target": {"state": "failed", "error": "it is full"}}
    ),
    "the disk has no snapshot of one subvolume": Row(
        "snap.target", "late", {"target": {"newest_at": {}}}
    ),
    "the disk has no snapshot of a subvolume that is missing": Row(
        "snap.target", "late",
        {"home": {"error": "/home does not exist"}, "target": {"newest_at": {}}},
    ),
    "the disk is away for a day": Row(
        "snap.target", "well",
        {"target": {"state": "absent", "seen_at": ago(1), "newest_at": {"/home": ago(1)}}},
    ),
    "the disk is away for 6 days": Row(
        "snap.target", "old",
        {"target": {"state": "absent", "seen_at": ago(6), "newest_at": {"/home": ago(6)}}},
    ),
    "the disk is away for 8 days": Row(
        "snap.target", "late",
        {"target": {"state": "absent", "seen_at": ago(8), "newest_at": {"/home": ago(8)}}},
    ),
    "the disk is away for 8 days, after weeks off": Row(
        "snap.target", "late",
        {"target": {"state": "absent", "seen_at": ago(8), "newest_at": {"/home": ago(8)}}},
        uptime=NIGHT_OFF,
    ),
    "the disk is away for 29 days": Row(
        "snap.target", "late",
        {"target": {"state": "absent", "seen_at": ago(29), "newest_at": {"/home": ago(29)}}},
    ),
    "the disk is away for 31 days": Row(
        "snap.target", "failing",
        {"target": {"state": "absent", "seen_at": ago(31), "newest_at": {"/home": ago(31)}}},
    ),
    "the server was never there": Row(
        "snap.target", "late",
        {"target": {"state": "unreachable", "seen_at": None, "newest_at": {}}},
    ),
    "the state of the disk is a new word": Row(
        "snap.target", "unknown", {"target": {"state": "dancing"}}
    ),
    "the clock is behind what was sent": Row(
        "snap.target", "ahead",
        {"target": {"state": "absent", "seen_at": ago(-3), "newest_at": {"/home": ago(-3)}}},
    ),
}  # fmt: skip


# ---- three who are asked


def by_doctor(row: Row, **other: str) -> str:
    return finding(row, **other).status


def finding(row: Row, **other: str) -> Finding:
    """`other`: texts in the place of those of the row."""
    texts = {name.replace("_", "-"): text for name, text in {**row.texts, **other}.items()}
    found = judge({**texts, "backups": ""}, row.spec, checks=[check_of(row.key)])
    (its,) = [one for one in found if one.subject in {row.subject, "host"}]
    return its


def by_capture(row: Row) -> str:
    asked = subject(declared={"driver": "535", **row.inventory}, **row.texts)
    (found,) = [one.status for one in judge_backups(asked) if one.id == CAPTURED[row.key]]
    return found


def by_self_check(row: Row, root: Path) -> str:
    borg = row.spec.borg
    subjects = {row.subject, "host", borg.repository if borg else ""}
    lines = self_checked(row, root)
    its = [one[1] for one in lines if one[2] == row.key and one[3] in subjects]
    return its[0] if its else "not asked"


def self_checked(row: Row, root: Path) -> list[list[str]]:
    """The findings of the packed program, which reads files below `root`, at this moment."""
    borg, snapshots = row.spec.borg, row.spec.snapshots
    files = {"proc/uptime": f"{row.uptime.total_seconds():.2f} 1.00\n"}
    if borg:
        files["etc/rigops/borg.json"] = borg_decide.settings("rig", borg)
    if snapshots:
        files["etc/rigops/snapshots.json"] = snapshots_decide.settings("rig", snapshots)
    if row.text is not None:
        files[f"var/lib/rigops/{'borg' if borg else 'snapshots'}.json"] = row.text
    shutil.rmtree(root, ignore_errors=True)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    program: dict[str, Any] = {"__name__": "packed"}
    exec(packed("borg" if borg else "snapshots", str(root)), program)  # noqa: S102 - rigops itself
    program["utc_now"] = lambda: NOW
    said = io.StringIO()
    with redirect_stdout(said):
        program["check_backups" if borg else "check"](None, None)
    lines = [line.split("\t") for line in said.getvalue().splitlines()]
    return [one for one in lines if one[0] == "finding"]


@cache
def packed(name: str, root: str) -> CodeType:
    below = re.sub(r'"(?=/(etc/rigops|var/lib/rigops|proc/uptime))', f'"{root}', pack(name).text)
    return compile(below, name, "exec")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.mark.parametrize("name", ROWS)
def test_doctor_self_check_and_capture_agree(name: str, root: Path) -> None:
    row = ROWS[name]

    found = [by_doctor(row), by_self_check(row, root)]
    if row.key in CAPTURED:
        found.append(by_capture(row))

    assert " / ".join(found) == " / ".join(ANSWERS[row.expected][: len(found)])


@pytest.mark.parametrize(
    "row",
    [
        Row("borg.age", "unknown"), Row("borg.repository", "unknown"),
        Row("borg.drill", "unknown"), Row("borg.lock", "unknown", locked(0.5)),
        Row("snap.age", "unknown", subject="/home"),
        Row("snap.target", "unknown", {"target": {"state": "absent"}}),
    ],
    ids=lambda row: row.key,
)  # fmt: skip
def test_without_the_clock_of_the_host_doctor_calls_nothing_well(row: Row) -> None:
    assert by_doctor(row, boot="") == "unknown"


def test_of_what_was_sent_the_oldest_counts() -> None:
    newest = {"/": ago(hours=5), "/home": ago(hours=1)}
    row = Row("snap.target", "well", {"target": {"newest_at": newest}}, {"subvolumes": [*newest]})

    assert finding(row).summary.endswith(newest["/"])


def test_doctor_has_every_check_that_the_self_check_names(root: Path) -> None:
    printed = {one[2] for row in ROWS.values() for one in self_checked(row, root)}

    assert printed - {check.id for check in CHECKS} == set()


# ---- the same of a backup of another tool, whose self-check is shell


UNIT: Final = "restic@home.timer"
SERVICE: Final = "restic@home.service"


@dataclass(frozen=True)
class Watched:
    """`ran` and `newest`: ages in days of the last run and of what the command newest prints.

    `newest`: or what it prints instead; empty: there is no such command.
    """

    expected: Status
    newest: float | str = ""
    ran: float | None = 0.5
    started: float | None = None  # days ago, where it runs
    result: str = "success"
    load: str = "loaded"
    up: timedelta = NIGHT_OFF

    @property
    def declared(self) -> dict[str, Any]:
        command = {"newest": "newest-backup"} if self.newest != "" else {}
        return {"borg": {"managed": False, "unit": UNIT, **command}}

    def shown(self, now: datetime) -> str:
        """As systemctl shows the service."""
        start, end = (
            "n/a" if days is None else f"{now - timedelta(days):%a %Y-%m-%d %H:%M:%S UTC}"
            for days in (self.started, self.ran)
        )
        times = f"ExecMainStartTimestamp={start}\nExecMainExitTimestamp={end}\n"
        return f"LoadState={self.load}\nResult={self.result}\n{times}"

    def printed(self, now: datetime) -> str:
        if isinstance(self.newest, str):
            return self.newest
        return f"{(now - timedelta(self.newest)).timestamp():.0f}"


WATCHED: Final[Mapping[str, Watched]] = {
    "the unit ran": Watched("well"),
    "the unit ran three days ago": Watched("late", ran=3),
    "the unit ran nine days ago": Watched("failing", ran=9),
    "the unit did not run since the boot ten minutes ago": Watched("to come", ran=None),
    "the unit did not run since the boot three days ago": Watched(
        "unknown", ran=None, up=timedelta(days=3)
    ),
    "the unit did not run since the boot 46 hours ago": Watched(
        "to come", ran=None, up=timedelta(hours=46)
    ),
    "the unit ran for two days": Watched("well", started=2.5),
    "the unit runs": Watched("runs", ran=None, started=0.1, up=timedelta(days=3)),
    "the unit runs for nine days": Watched("failing", ran=None, started=9, up=timedelta(days=10)),
    "the unit runs, and the newest is of today": Watched("well", 0.5, ran=None, started=0.1),
    "the unit runs, and the newest is nine days old": Watched("failing", 9, ran=None, started=0.1),
    "the unit ran, and systemd says no result": Watched("well", result=""),
    "the unit failed": Watched("failing", result="exit-code"),
    "there is no such unit": Watched("failing", load="not-found"),
    "the unit is masked": Watched("failing", load="masked"),
    "the newest is of today": Watched("well", 0.5),
    "the newest is of today, and the unit did not run since": Watched("well", 0.5, ran=None),
    "the newest is three days old": Watched("late", 3),
    "the newest is nine days old": Watched("failing", 9),
    "the newest is of today, and the unit failed": Watched("failing", 0.5, result="exit-code"),
    "the newest is of the future": Watched("ahead", -3),
    "the command prints no time": Watched("unknown", "never"),
}


def shell_check(row: Watched, root: Path, shell: str) -> str:
    now = datetime.now(timezone.utc)
    unit = f"unit {UNIT}\n" + ("newest newest-backup\n" if row.newest != "" else "")
    shown = "\n".join(f"echo '{line}'" for line in row.shown(now).splitlines())
    (root / "watched").write_text(unit)
    (root / "uptime").write_text(f"{row.up.total_seconds():.2f} 1.00\n")
    for name, text in {
        "systemctl": f'#!/bin/sh\n[ "$5" = {SERVICE} ] || exit 1\n{{\n{shown}\n}} | grep "^$3="\n',
        "newest-backup": f"#!/bin/sh\necho '{row.printed(now)}'\n",
    }.items():
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    _, option, script = borg_decide.watch_check()
    for path, its in {"/etc/rigops/borg_watched": "watched", "/proc/uptime": "uptime"}.items():
        script = script.replace(path, its)
    assert "\n" not in script  # a line of the settings of the self-check

    done = subprocess.run(
        [*programs.shell(shell), option, script],
        cwd=root, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
        env={"PATH": f"{root}:{os.environ['PATH']}"},
    )  # fmt: skip

    assert done.stderr == ""
    kind, status, check, its, text = done.stdout.rstrip("\n").split("\t")
    assert (kind, check, its, bool(text)) == ("finding", "borg.age", UNIT, True)
    return status


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", WATCHED)
def test_doctor_self_check_and_capture_agree_on_a_backup_of_another_tool(
    name: str, shell: str, tmp_path: Path
) -> None:
    row = WATCHED[name]
    texts: dict[str, Any] = {
        "boot": f"== /proc/uptime\n{row.up.total_seconds():.2f} 1.00\n"
        f"== date +%s\n{NOW.timestamp():.0f}\n",
        "backups": f"== date +%s\n{NOW.timestamp():.0f}\n== systemctl show\nId={SERVICE}\n"
        f"{row.shown(NOW)}== newest backup\n{row.printed(NOW)}\n",
    }

    (found,) = judge(texts, spec(**row.declared), checks=[check_of("borg.age")])
    captured_host = subject(declared={"driver": "535", **row.declared}, **texts)
    requirements = judge_backups(captured_host)
    (captured,) = [one.status for one in requirements if one.id == "backup.newest"]

    (backup,) = describe(captured_host).backups
    has_date = row.newest != "never" if row.newest != "" else row.ran is not None

    assert (backup.newest_at is not None) == has_date  # a run that has not ended is none
    answer = (found.status, shell_check(row, tmp_path, shell), captured)
    assert " / ".join(answer) == " / ".join(ANSWERS[row.expected])
