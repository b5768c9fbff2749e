"""The command that shows what apply would do."""

from __future__ import annotations

import click

from rigops.cli.apply_common import Selected, fleet_run, inventory_options
from rigops.cli.hosts import AskAccess, host_options
from rigops.cli.options import is_verbose
from rigops.cli.output import print_json, text_width
from rigops.converge.request import RunOptions
from rigops.converge.result import gravest
from rigops.report.closing import MOST_IN_FULL, closing_lines
from rigops.report.host_rows import plan_rows
from rigops.report.plan import plan_lines, total_lines
from rigops.report.terminal import print_lines

SCHEMA = "rigops.plan/1"
PENDING = 4


@click.command("plan")
@inventory_options
@click.option("--exit-code", "fails_pending", is_flag=True, help="Exit 4 when changes are pending.")
@host_options
def command(
    *,
    selected: Selected,
    fails_pending: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Show what apply would change on each HOST, and change nothing.

    HOST is a name, group or glob of the inventory, or the inventory file itself. Without HOST:
    every host of the inventory.
    Shows what the changes come to, then files and packages of each concern, reboots with their
    reasons, and what blocks a concern; with -v every package and the differences of every file.
    Entries that are the same on several hosts are one.

    \b
    Examples:
      rigops plan                              every host of ./inventory.py
      rigops plan -v threadripper              every package, and the differences of every file
      rigops plan rig1 rig5 -i rack.py
      rigops plan --limit 'v100*' --only kernel_args
      rigops plan --exit-code >/dev/null; [ $? = 4 ] && echo 'changes are pending'
    """
    options = RunOptions(
        command="plan",
        selection=selected.selection,
        inventory_digest=selected.digest,
        access=access(),
    )
    with fleet_run(selected.requests, options) as (run, _):
        run.plan()
    if as_json:
        print_json({"schema": SCHEMA, "hosts": [result.plan_json() for result in run.results]})
    else:
        width = text_width()
        is_brief = len(run.results) > MOST_IN_FULL and not is_verbose()
        lines = plan_lines(run.results, width, has_diffs=is_verbose(), is_brief=is_brief)
        total = total_lines(run.results, width)
        rows = plan_rows(run.results)
        print_lines(*lines, "", *closing_lines(rows, width, selected.again, total))
    codes = (result.plan_code for result in run.results)
    return gravest(code for code in codes if fails_pending or code != PENDING)
