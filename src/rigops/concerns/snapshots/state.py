"""Whether the snapshots of a host are well. Pure; Python 3.8 and the standard library only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rigops.backup.ages import ABSENT_MOST, MISSHAPEN, judge_age
from rigops.backup.retention import longest_pause
from rigops.backup.utc import parse_utc
from rigops.concerns.state import AS_DECLARED, FAILING, HELD, IN_DOUBT, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.backup.ages import Moment
    from rigops.backup.host.snapshot_settings import SnapshotSettings
    from rigops.concerns.snapshots.host.snapshot_documents import SnapshotsRecord

STATE_FILE: Final = "/var/lib/rigops/snapshots.json"
STATE_SCHEMA: Final = "rigops.snapshots_state/1"
AGE: Final = "snap.age"  # keys are the ids of doctor and the self-check
TARGET: Final = "snap.target"
UNPRUNED: Final = "snap.held"


def judge_snapshots(settings: SnapshotSettings, text: str | None, moment: Moment) -> list[State]:
    """`text`: of the record of the last run; None: there is none.

    What is to be said of all is said of the age alone. `now`: when it was, as the record has it.
    """
    why = "no snapshot was due yet: no run so far"
    plain = State(check=AGE, name="", subject="host", wanted="", now="", status=HELD, why=why)
    if text is None:
        return [plain]
    try:
        return list(_judge_each(plain, settings, json.loads(text), moment))
    except MISSHAPEN:
        return [plain._replace(status=UNKNOWN, why=f"{STATE_FILE} cannot be read")]


def _judge_each(
    plain: State, settings: SnapshotSettings, noted: SnapshotsRecord, moment: Moment
) -> Iterator[State]:
    if noted["schema"] != STATE_SCHEMA:
        raise ValueError(noted["schema"])
    plain = plain._replace(status=AS_DECLARED)
    for path in settings.subvolumes:
        yield _judge_newest(plain._replace(subject=path), settings, noted, moment)
    held = "; ".join(map(str, noted.get("held") or ()))
    why = held or "no snapshot is held back from pruning"
    yield plain._replace(check=UNPRUNED, status=IN_DOUBT if held else AS_DECLARED, why=why)
    if settings.send_to:
        yield _judge_target(plain._replace(check=TARGET), settings, noted, moment)


def _judge_newest(
    plain: State, settings: SnapshotSettings, noted: SnapshotsRecord, moment: Moment
) -> State:
    found = noted["subvolumes"].get(plain.subject)
    if found is None:
        return plain._replace(status=IN_DOUBT, why="no run has looked at it yet")
    newest, error = found.get("newest_at"), found.get("error")
    if error:
        why = f"the last run, at {noted['at']}, failed: {error}"
        return plain._replace(now=newest or "", status=FAILING, why=why)
    if newest is None:
        return plain._replace(status=FAILING, why="there is no snapshot")
    most = 2 * longest_pause(settings.rule)
    status, why = judge_age("the newest snapshot", parse_utc(newest), moment, most, most)
    return plain._replace(now=newest, status=status, why=why)


def _judge_target(
    plain: State, settings: SnapshotSettings, noted: SnapshotsRecord, moment: Moment
) -> State:
    """`now`: of the oldest of the newest there; empty unless it has all."""
    target, name = noted.get("target") or {}, settings.send_to
    if target.get("name") != name:
        why = f"nothing was sent to {name} yet: no run since then"
        return plain._replace(status=HELD, why=why)
    newest = target.get("newest_at") or {}
    lacking = [path for path in settings.subvolumes if not newest.get(path)]
    oldest = "" if lacking else min(newest[path] for path in settings.subvolumes)
    plain, state = plain._replace(now=oldest), target["state"]
    error = str(target.get("error") or state)
    about = error if name in error else f"{name}: {error}"
    if state in {"absent", "unreachable"}:
        return _judge_absent(plain, about, target.get("seen_at"), moment)
    if state == "present" and not lacking:
        return plain._replace(why=f"{name} has snapshots up to {oldest}")
    if state == "present":
        rows = [noted["subvolumes"][one] for one in lacking if one in noted["subvolumes"]]
        is_taken = not any(row.get("error") for row in rows)
        so_far = " yet" if is_taken else ": the last run could take none"
        why = f"{name} has no snapshot of {', '.join(lacking)}{so_far}"
        return plain._replace(status=IN_DOUBT, why=why)
    return plain._replace(status=FAILING if state == "failed" else UNKNOWN, why=about)


def _judge_absent(plain: State, about: str, seen: str | None, moment: Moment) -> State:
    if seen is None:
        return plain._replace(status=IN_DOUBT, why=f"{about}, and was never there")
    known = moment._replace(uptime=None)  # no boot makes up for it
    status, why = judge_age("the last connection", parse_utc(seen), known, *ABSENT_MOST)
    return plain._replace(status=status, why=f"{about}; {why}")
