"""Whether the backups of a host are well. Pure; Python 3.8 and the standard library only."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.backup.ages import (
    DRILL_MOST,
    LOCKED_MOST,
    MISSHAPEN,
    age_limits,
    judge_age,
    span,
    time_between_runs,
)
from rigops.backup.utc import parse_utc, utc_text
from rigops.concerns.borg.host.borg_meanings import (
    ABSENT,
    FAILED,
    LOCKED,
    OK,
    TO_BE_HEALED,
    UNREACHABLE,
)
from rigops.concerns.state import AS_DECLARED, FAILING, HELD, IN_DOUBT, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rigops.backup.ages import Moment
    from rigops.concerns.borg.host.borg_documents import BorgRecord, PastNote, RepositoryNote
    from rigops.concerns.borg.host.borg_settings import BorgSettings
    from rigops.concerns.state import Status

BORG_STATE_FILE: Final = "/var/lib/rigops/borg.json"
BORG_STATE_SCHEMA: Final = "rigops.borg_state/1"
AGE: Final = "borg.age"  # keys are the ids of doctor and the self-check
REPOSITORY: Final = "borg.repository"
DRILL: Final = "borg.drill"
LOCK: Final = "borg.lock"
UNPRUNED: Final = "borg.held"
_LOGIN = re.compile(r"(://)[^/@\s]*@")


class Watched(NamedTuple):
    """A backup of another tool. `load` and `result`: of its unit; empty where not reported.

    `at`: of the newest backup where a command says it, or else of the last run: of its start while
    it runs (`is_running`).
    """

    unit: str
    load: str
    result: str
    at: datetime | None
    has_command: bool
    is_running: bool = False


def judge_borg(settings: BorgSettings, text: str | None, moment: Moment) -> list[State]:
    """`text`: of the record of the last run; None: there is none.

    What is to be said of all is said of the age alone. `now`: when it was, as the record has it.
    """
    where, why = settings.repository, "no backup was due yet: no run so far"
    plain = State(check=AGE, name="", subject=where, wanted="", now="", status=HELD, why=why)
    if text is None:
        return [plain]
    try:
        return list(_judge_each(plain, settings, json.loads(text), moment))
    except MISSHAPEN:
        return [plain._replace(status=UNKNOWN, why=f"{BORG_STATE_FILE} cannot be read")]


def judge_watched(watched: Watched, moment: Moment) -> State:
    """As a daily one that makes up for nothing after a boot, at which systemd forgets its runs."""
    plain = State(check=AGE, name="", subject=watched.unit, wanted="", now="", status=UNKNOWN)
    if watched.load in {"not-found", "masked"}:
        what = "was not found" if watched.load == "not-found" else "is masked"
        return plain._replace(status=FAILING, why=f"the declared unit {what}")
    if watched.result not in {"", "success"}:
        return plain._replace(status=FAILING, why=f"the last run failed: {watched.result}")
    if watched.at is None and watched.has_command:
        return plain._replace(why="the command newest printed no time")
    if watched.at is None:
        is_new = moment.uptime is not None and moment.uptime <= age_limits()[0]
        why = "when it ran last is unknown: not since the boot"
        return plain._replace(status=HELD if is_new else UNKNOWN, why=why)
    what = "the newest backup" if watched.has_command else "the last run"
    known = moment._replace(uptime=None)
    status, why = judge_age(what, watched.at, known, *age_limits())
    return plain._replace(now=utc_text(watched.at), status=status, why=why)


def is_place(known: str, declared: str | None) -> bool:
    """The probe drops the login of a URL from all that it reads."""
    same, other = (_LOGIN.sub(r"\1", one) for one in (known, declared or ""))
    return same == other


def _judge_each(
    plain: State, settings: BorgSettings, noted: BorgRecord, moment: Moment
) -> Iterator[State]:
    if noted["schema"] != BORG_STATE_SCHEMA:
        raise ValueError(noted["schema"])
    if not is_place(noted["repository"]["location"], settings.repository):
        why = f"no backup to {settings.repository} yet: no run since it was declared"
        yield plain._replace(status=IN_DOUBT, why=why)
        return
    plain = plain._replace(status=AS_DECLARED)
    yield _judge_newest(plain, settings, noted, moment)
    every = timedelta(days=settings.check_every_days)
    check = _judge_past(plain._replace(check=REPOSITORY), "check", noted, moment, 2 * every)
    yield _judge_repository(check, noted["repository"])
    yield _judge_past(plain._replace(check=DRILL), "drill", noted, moment, DRILL_MOST)
    yield _judge_lock(plain._replace(check=LOCK), noted, moment)
    held = "; ".join(map(str, noted.get("held") or ()))
    why = held or "no archive is held back from pruning"
    yield plain._replace(check=UNPRUNED, status=IN_DOUBT if held else AS_DECLARED, why=why)


def _judge_newest(plain: State, settings: BorgSettings, noted: BorgRecord, moment: Moment) -> State:
    newest = noted.get("newest_at")
    if newest is None or noted["repository"].get("archives") == 0:
        return plain._replace(status=FAILING, why="there is no backup")
    limits = age_limits(time_between_runs(settings.schedule, settings.keep))
    status, why = judge_age("the newest backup", parse_utc(newest), moment, *limits)
    return plain._replace(now=newest, status=status, why=why)


def _judge_past(
    plain: State, what: str, noted: BorgRecord, moment: Moment, most: timedelta
) -> State:
    """Before the first one the time counts from the first run, which no older rigops wrote down."""
    notes = {"check": noted.get("last_check"), "drill": noted.get("last_drill")}
    found: PastNote = notes[what] or {}
    at, result = found.get("at"), found.get("result")
    since = at or noted.get("since")
    status: Status = HELD if what == "check" else IN_DOUBT
    why = ""
    if since:  # no boot makes up for it
        known = moment._replace(uptime=None)
        status, why = judge_age(f"the last {what}", parse_utc(since), known, most)
    if not at:
        status = HELD if status == AS_DECLARED else status
        return plain._replace(status=status, why=f"no {what} yet")
    if result == TO_BE_HEALED:
        status, why = IN_DOUBT, f"the {what} of {at[:10]} found archives that are to be healed"
    elif result != OK:
        status, why = FAILING, f"the {what} of {at[:10]} failed: {found.get('error') or result}"
    return plain._replace(now=at, status=status, why=why)


def _judge_repository(check: State, found: RepositoryNote) -> State:
    """By its state first; a disk that is absent and a server that is away fail by their age."""
    state, where = found["state"], check.subject
    error = str(found.get("error") or state)
    archives = found.get("archives")
    count = "" if archives is None else f", {archives} archives"
    if state == FAILED:
        one = check._replace(status=FAILING, why=error)
    elif check.status == FAILING:
        one = check
    elif state in {ABSENT, UNREACHABLE, TO_BE_HEALED}:
        one = check._replace(status=IN_DOUBT, why=error)
    elif state in {OK, LOCKED}:
        one = check._replace(why=f"{state}{count}; {check.why}")
    else:
        one = check._replace(status=UNKNOWN, why=error)
    return one if where in one.why else one._replace(why=f"{where}: {one.why}")


def _judge_lock(plain: State, noted: BorgRecord, moment: Moment) -> State:
    found = noted["repository"].get("lock")
    if not found:
        return plain._replace(why="the repository is not locked")
    age = timedelta(seconds=float(found["age_s"]))
    if moment.now:  # nobody has looked since
        age += max(timedelta(), moment.now - parse_utc(noted["at"]))
    host = str(found.get("host") or "")
    who = f" by {host} (pid {found['pid']})" if host else ""
    status: Status = HELD if moment.now else UNKNOWN
    status = status if age < LOCKED_MOST else FAILING
    return plain._replace(now=host, status=status, why=f"locked{who} for {span(age)}")
