"""What the daily self-check reads of the backups. Asks no repository."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.backup.ages import DRILL_MOST, judge_age, longest_unchecked, time_between_runs
from rigops.backup.pruning import is_future
from rigops.backup.utc import read_utc, utc_now
from rigops.concerns.borg.host.borg_locks import lock_age
from rigops.concerns.borg.host.borg_meanings import ABSENT, LOCKED, OK, TO_BE_HEALED, UNREACHABLE
from rigops.concerns.borg.host.borg_settings import read_borg_settings
from rigops.concerns.borg.host.borg_state import read_borg_state

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from datetime import datetime

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_settings import BorgSettings

    CheckLine = tuple[str, str, str, str]  # status, id, subject, summary

_LOCKED_LONG_S = 24 * 3600


def add_borg_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="lines for the daily self-check")
    parser.set_defaults(carry_out=check_backups)


def check_backups(options: argparse.Namespace, output: Output) -> int:
    del options, output
    settings = read_borg_settings()
    if settings is None:
        return 0
    state, now = read_borg_state(), utc_now()
    for line in judge_borg_state(settings, state, now, read_uptime()):
        sys.stdout.write("\t".join(("finding", *(" ".join(word.split()) for word in line))) + "\n")
    newest = read_utc(state.get("newest_at"))
    drilled = read_utc((state.get("last_drill") or {}).get("at"))
    for name, at in (("borg_age_seconds", newest), ("borg_drill_age_seconds", drilled)):
        if at:
            sys.stdout.write(f"metric\t{name}\t{max(0.0, (now - at).total_seconds()):.0f}\n")
    return 0


def judge_borg_state(
    settings: BorgSettings, state: dict[str, Any], now: datetime, uptime: timedelta | None
) -> Iterator[CheckLine]:
    where = settings.repository
    newest = read_utc(state.get("newest_at"))
    if newest is None:
        yield ("fail", "borg.age", where, "no backup yet")
    elif is_future(newest, now):
        yield ("warn", "borg.age", where, "newest backup is dated in the future: a clock is wrong")
    else:
        age = now - newest
        between = time_between_runs(settings.schedule, settings.keep)
        yield (
            judge_age(age, between, uptime),
            "borg.age",
            where,
            f"newest backup is {_days(age)} old",
        )
    yield _judge_repository(settings, state.get("repository") or {})
    for sentence in state.get("held") or ():
        yield ("warn", "borg.held", where, str(sentence))
    yield _judge_past("borg.drill", where, state.get("last_drill") or {}, now, DRILL_MOST)
    most = longest_unchecked(settings.check_every_days)
    yield _judge_past("borg.check", where, state.get("last_check") or {}, now, most)


def read_uptime() -> timedelta | None:
    try:
        return timedelta(seconds=float(Path("/proc/uptime").read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return None


def _judge_repository(settings: BorgSettings, found: dict[str, Any]) -> CheckLine:
    where, subject = "borg.repository", settings.repository
    state = found.get("state") if found.get("location") == settings.repository else None
    error = str(found.get("error") or state)
    if state is None:
        return ("fail", where, subject, "no run has used it yet")
    if state == OK:
        return ("ok", where, subject, f"present, {found.get('archives', 0)} archives")
    if state == LOCKED:
        age = float((found.get("lock") or {}).get("age_s") or 0)
        status = "fail" if age > _LOCKED_LONG_S else "warn"
        return (status, where, subject, f"locked for {lock_age(age)}: {error}")
    if state in {ABSENT, UNREACHABLE}:
        return ("warn", where, subject, error)  # its age fails when it lasts
    if state == TO_BE_HEALED:
        return ("warn", where, subject, error)
    return ("fail", where, subject, error)


def _judge_past(
    check: str, subject: str, found: dict[str, Any], now: datetime, most: timedelta
) -> CheckLine:
    what = "restore drill" if check == "borg.drill" else "repository check"
    at, result = read_utc(found.get("at")), found.get("result")
    if at is None:
        return ("warn", check, subject, f"no {what} yet")
    age = now - at
    if result == TO_BE_HEALED:
        return ("warn", check, subject, f"the {what} found archives that are to be healed")
    if result != "ok":
        return ("fail", check, subject, f"the last {what} failed: {found.get('error') or result}")
    if is_future(at, now):
        return ("warn", check, subject, f"the last {what} is dated in the future: a clock is wrong")
    return (
        "warn" if age > most else "ok",
        check,
        subject,
        f"the last {what} succeeded {_days(age)} ago",
    )


def _days(age: timedelta) -> str:
    hours = max(0, int(age.total_seconds())) // 3600
    return f"{hours // 24} d" if hours >= 48 else f"{hours} h"  # noqa: PLR2004 - two days
