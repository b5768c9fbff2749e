"""The command that declares what doctor would have declared."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.examiner import Examiner
from rigops.cli.failure import EXIT_DECLINED, EXIT_FAILURE, EXIT_UNREACHED
from rigops.cli.hosts import (
    AskAccess,
    called_again,
    chosen_host,
    host_options,
    locked_hosts,
    read_catalogs,
)
from rigops.cli.options import host_arguments, read_inventory, words
from rigops.cli.output import has_terminal, print_declined, print_json, text_width
from rigops.cli.terminal import Terminal
from rigops.concerns import registry
from rigops.doctor.host_report import HostReport
from rigops.doctor.proposal import ProposedKeys, suggest
from rigops.hosts.access import HostAccess
from rigops.hosts.probing import CollectedHost, ProbeOptions, probe_hosts
from rigops.inventory.merge import collect, lacking
from rigops.inventory.rewrite import Rewrite, rewrite, write
from rigops.report.closing import Again, closing_lines
from rigops.report.inventory import (
    by_hand_lines,
    diff_lines,
    document_hosts,
    reason_lines,
    unreached_lines,
)
from rigops.report.terminal import print_lines, visible

if TYPE_CHECKING:
    from rigops.converge.result import HostResult

SCHEMA = "rigops.fix/1"


@click.command("fix")
@host_arguments("[HOST]…")
@click.option(
    "--only", multiple=True, callback=words, metavar="ID", help="Fix what these checks find."
)
@click.option("--skip", multiple=True, callback=words, metavar="ID", help="Leave these checks out.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    yes: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Declare what doctor would have declared, then plan.

    Checks the hosts as doctor does. Shows the lines that fix what it finds as a difference of the
    inventory, asks, and writes them there; comments and form stay. Then plans. No host
    is changed: `rigops apply` does that. Where the place of a key is not certain, the host stays
    as it is and its line is named. HOST is a name, group or glob of the inventory. Without HOST:
    every host.

    \b
    Examples:
      rigops fix
      rigops fix threadripper --only drv.pin,iommu.mode
      rigops fix --yes --json
    """
    inventory = read_inventory(inventory_path)
    inventory.require_fitting(hosts, "HOST")
    chosen = [
        chosen_host(one, inventory)
        for one in inventory.supported
        if not hosts or any(map(one.fits, hosts))
    ]
    read_catalogs(one.spec for one in chosen)
    locked = locked_hosts(chosen, inventory_path)
    examiner, reach = Examiner(only, skip), access()

    def judge(one: CollectedHost) -> tuple[HostReport, str]:
        report = examiner.judge(one, locked.get(one.host))[1]
        return report, report.status

    options = ProbeOptions(access=reach, more=examiner.ask_for_a_driver)
    reports = probe_hosts(chosen, options, judge, Terminal())
    data = {one.name: one.data for one in inventory.hosts}
    proposed = {one.host: _missing(data[one.host], one) for one in reports}
    keys = {
        host: lacking(data[host], collect(one.keys for one in found))
        for host, found in proposed.items()
        if found
    }
    wanted = rewrite(inventory, keys, registry.keys())
    if not as_json or not yes:
        _show(reports, proposed, wanted)
    is_changed = wanted.text != wanted.before
    is_written = is_changed and (yes or _confirmed(wanted))
    results: Sequence[HostResult] = ()
    if is_written:
        write(wanted, registry.keys())
        print_lines(f"Wrote {wanted.path}.", err=True)
        results = _plan(inventory_path, keys, reach)
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "inventory": str(wanted.path),
                "diff": diff_lines(wanted),
                "written": is_written,
                "hosts": list(document_hosts(reports, proposed, wanted)),
                "plan": [one.plan_json() for one in results],
            }
        )
    elif is_written:
        again = called_again(inventory_path)
        _show_plan(results, replace(again, is_whole=len(keys) == len(inventory.hosts)))
    if is_changed and not is_written:
        return EXIT_DECLINED
    codes = {one.plan_code for one in results}
    if wanted.by_hand or EXIT_FAILURE in codes:
        return EXIT_FAILURE
    return EXIT_UNREACHED if EXIT_UNREACHED in codes or any(one.error for one in reports) else 0


def _missing(data: Mapping[str, object], report: HostReport) -> tuple[ProposedKeys, ...]:
    return tuple(one for one in suggest(report.unexplained) if lacking(data, one.keys))


def _show(
    reports: Sequence[HostReport],
    proposed: Mapping[str, Sequence[ProposedKeys]],
    wanted: Rewrite,
) -> None:
    width = text_width(sys.stderr)
    lines = [*unreached_lines(reports), *reason_lines(proposed, width)]
    lines += [*diff_lines(wanted), *by_hand_lines(wanted, width)]
    print_lines(
        *lines or ["Nothing to declare: each fix that apply can do is in the inventory."], err=True
    )


def _confirmed(wanted: Rewrite) -> bool:
    if not has_terminal():
        print_declined("no terminal to confirm on", "pass --yes")
        return False
    return click.confirm(visible(f"Write this into {wanted.path}?"), err=True)


def _plan(
    inventory_path: Path | None, hosts: Collection[str], access: HostAccess
) -> Sequence[HostResult]:
    from rigops.cli.apply_common import fleet_run, host_requests
    from rigops.converge.request import RunOptions, Selection

    inventory = read_inventory(inventory_path)
    requests = [one for one in host_requests(inventory, ()) if one.name in hosts]
    options = RunOptions(
        command="plan",
        selection=Selection.from_words((), ()),
        inventory_digest=inventory.digest,
        access=access,
    )
    with fleet_run(requests, options) as (run, _):
        run.plan()
    return run.results


def _show_plan(results: Sequence[HostResult], again: Again) -> None:
    from rigops.report.host_rows import plan_rows
    from rigops.report.plan import plan_lines, total_lines

    width = text_width()
    short = plan_lines(results, width, has_changes=False)
    total = total_lines(results, width)
    print_lines(*short, "", *closing_lines(plan_rows(results), width, again, total))
