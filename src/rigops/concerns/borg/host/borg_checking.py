"""Input of the daily self-check on backups. Asks no repository."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rigops.backup.ages import Moment
from rigops.backup.host.state_file import read_record
from rigops.backup.host.time_service import read_uptime
from rigops.backup.utc import utc_now
from rigops.concerns.borg.host.borg_settings import read_borg_settings
from rigops.concerns.borg.state import AGE, BORG_STATE_FILE, DRILL, judge_borg
from rigops.concerns.check_lines import check_lines
from rigops.concerns.check_timer import judge_timer

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output

_METRICS = {AGE: "borg_age_seconds", DRILL: "borg_drill_age_seconds"}


def add_borg_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="lines for the daily self-check")
    parser.set_defaults(carry_out=check_backups)


def check_backups(options: argparse.Namespace, output: Output) -> int:
    del options, output
    settings, now = read_borg_settings(), utc_now()
    if settings:
        moment = Moment(now, read_uptime())
        states = judge_borg(settings, read_record(BORG_STATE_FILE), moment)
        timer = judge_timer(AGE, "rigops-borg")
        sys.stdout.writelines(check_lines([*timer, *states], _METRICS, now))
    return 0
