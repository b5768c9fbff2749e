"""Input of the daily self-check: the age of the snapshots and of their copies. Asks no disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rigops.backup.ages import Moment
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.state_file import read_record
from rigops.backup.host.time_service import read_uptime
from rigops.backup.utc import utc_now
from rigops.concerns.check_lines import check_lines
from rigops.concerns.check_timer import judge_timer
from rigops.concerns.snapshots.state import AGE, STATE_FILE, TARGET, judge_snapshots

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output

_METRICS = {AGE: "snapshot_age_seconds", TARGET: "snapshot_sent_age_seconds"}


def add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="lines for the daily self-check")
    parser.set_defaults(carry_out=check)


def check(options: argparse.Namespace, output: Output) -> int:
    del options, output
    settings, now = read_snapshot_settings(), utc_now()
    if settings:
        moment = Moment(now, read_uptime())
        states = judge_snapshots(settings, read_record(STATE_FILE), moment)
        timer = judge_timer(AGE, "rigops-snapshots")
        sys.stdout.writelines(check_lines([*timer, *states], _METRICS, now))
    return 0
