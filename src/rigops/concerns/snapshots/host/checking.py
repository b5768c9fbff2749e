"""What the daily self-check reads: the age of the snapshots and of their copies. Asks no disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.pruning import is_future
from rigops.backup.retention import longest_pause
from rigops.backup.utc import read_utc, utc_now
from rigops.concerns.snapshots.host.run_state import read_snapshots_state

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from rigops.backup.host.output import Output
    from rigops.backup.host.snapshot_settings import SnapshotSettings

    Line = tuple[str, str, str, str]  # status, id, subject, summary

_WARN, _FAIL = timedelta(days=7), timedelta(days=30)


def add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="lines for the daily self-check")
    parser.set_defaults(carry_out=check)


def check(options: argparse.Namespace, output: Output) -> int:
    del options, output
    settings = read_snapshot_settings()
    if settings is None:
        return 0
    for line in judge_state(settings, read_snapshots_state(), utc_now()):
        sys.stdout.write("\t".join(("finding", *(" ".join(word.split()) for word in line))) + "\n")
    for name, value in sorted(measure_ages(settings, read_snapshots_state(), utc_now()).items()):
        sys.stdout.write(f"metric\t{name}\t{value:.0f}\n")
    return 0


def judge_state(settings: SnapshotSettings, state: dict[str, Any], now: datetime) -> Iterator[Line]:
    most = 2 * longest_pause(settings.rule)
    subvolumes = state.get("subvolumes") or {}
    for path in settings.subvolumes:
        found = subvolumes.get(path) or {}
        newest = read_utc(found.get("newest_at"))
        if newest is None:
            yield ("fail", "snap.age", path, "no snapshot yet")
        elif is_future(newest, now):
            summary = "newest snapshot is dated in the future: a clock is wrong"
            yield ("warn", "snap.age", path, summary)
        elif now - newest > most:
            yield ("fail", "snap.age", path, f"newest snapshot is {_age(now - newest)} old")
        else:
            yield ("ok", "snap.age", path, f"newest snapshot is {_age(now - newest)} old")
        error = found.get("error")
        yield (
            "fail" if error else "ok",
            "snap.error",
            path,
            str(error or "the last run succeeded"),
        )
    for sentence in state.get("held") or ():
        yield ("warn", "snap.held", "host", str(sentence))
    if settings.send_to:
        yield _judge_target(settings, state.get("target") or {}, now)


def _judge_target(settings: SnapshotSettings, target: dict[str, Any], now: datetime) -> Line:
    name, subject = settings.send_to, "host"
    if target.get("name") != name:
        return ("warn", "snap.target", subject, f"{name}: nothing has been sent there yet")
    if target.get("state") == "failed":
        error = str(target.get("error") or "failed")
        about = error if name in error else f"{name}: {error}"
        return ("fail", "snap.target", subject, about)
    seen = read_utc(target.get("seen_at"))
    state = target.get("state")
    if state == "present":
        return ("ok", "snap.target", subject, f"{name} is present")
    if seen is None:
        return ("warn", "snap.target", subject, f"{name} is {state} and has never been seen")
    age = now - seen
    status = "fail" if age > _FAIL else "warn" if age > _WARN else "ok"
    return (status, "snap.target", subject, f"{name} is {state}, last seen {_age(age)} ago")


def measure_ages(
    settings: SnapshotSettings, state: dict[str, Any], now: datetime
) -> dict[str, float]:
    """Of the oldest of the newest: the one that would be missed most."""
    found = {}
    places = (
        ("snapshot_age_seconds", _newest_here(state)),
        ("snapshot_sent_age_seconds", (state.get("target") or {}).get("newest_at") or {}),
    )
    for name, newest in places:
        times = [read_utc(newest.get(path)) for path in settings.subvolumes]
        known = [at for at in times if at]
        if known and len(known) == len(times):
            found[name] = max(0.0, (now - min(known)).total_seconds())
    return found


def _newest_here(state: dict[str, Any]) -> dict[str, Any]:
    every = state.get("subvolumes") or {}
    return {path: found.get("newest_at") for path, found in every.items()}


def _age(age: timedelta) -> str:
    hours = max(0, int(age.total_seconds())) // 3600
    return f"{hours // 24} d" if hours >= 48 else f"{hours} h"  # noqa: PLR2004 - two days
