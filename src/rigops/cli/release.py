"""The command that undoes everything that rigops owns on a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rigops.cli.apply_common import conclude, consent_options, fleet_run
from rigops.cli.hosts import AskAccess, choose_hosts, host_options
from rigops.cli.options import default_inventory, host_arguments, is_verbose
from rigops.cli.output import print_json, text_width
from rigops.cli.plan import PENDING
from rigops.cli.plan import SCHEMA as PLAN_SCHEMA
from rigops.concerns.concern import HostRequest
from rigops.converge.fleet_run import FleetRun
from rigops.converge.flow import carry_out, named
from rigops.converge.host_journal import FORGOTTEN
from rigops.converge.request import RebootWhen, RunOptions, Selection
from rigops.converge.result import HostResult, gravest
from rigops.errors import usage_error
from rigops.inventory.spec import RigSpec
from rigops.record import journal
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines
from rigops.report.words import wrapped

_WORDS = {
    "converged": "released; rigops owned nothing",
    "changed": "released",
    "reboot_owed": "undone, reboot pending; run release again after it to forget the host",
}


@click.command("release")
@host_arguments("HOST…", required=True)
@consent_options(reboot_help="If the undo needs one; until then the host is not forgotten.")
@click.option("--dry-run", is_flag=True, help="Show what would be undone; change nothing.")
@click.option("--drop-holds", is_flag=True, help="Release the holds of the driver's packages too.")
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    yes: bool,
    reboot: RebootWhen,
    allow_busy: bool,
    dry_run: bool,
    drop_holds: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Undo everything that rigops owns on each HOST, and forget the host.

    Shows the plan, asks, and restores what was there before rigops. Files that were changed since
    are not touched, but reported. Held packages stay held: without the pin, the next upgrade could
    bring another driver. The journal of the host stays on this machine.

    \b
    Examples:
      rigops release threadripper --dry-run    what would be undone and removed
      rigops release threadripper
      rigops release old-rig --yes --reboot auto
    """
    if not hosts:
        raise usage_error(message="name the hosts to release", key="HOST")
    if not dry_run:
        journal.require_writable()  # since it is to keep what the hosts forget
    chosen = choose_hosts(hosts, inventory_path)
    requests = [HostRequest(host.name, host.target, {}, RigSpec()) for host in chosen]
    options = RunOptions(
        command="plan" if dry_run else "release",
        selection=Selection(),
        access=access(),
        yes=yes,
        reboot=reboot,
        prune=True,
        allow_busy=allow_busy,
        keep_holds=not drop_holds,
        preflight="never",
    )

    if dry_run:
        with fleet_run(requests, options) as (run, _):
            run.plan()
        return _show(run.results, as_json=as_json)

    def keep(host: str, lines: Sequence[bytes]) -> None:
        """Add what only the host's journal has to that of this machine; of this run, `conclude`."""
        here = journal.read(host=host).runs
        there = reversed(journal.parse(lines).runs)
        for past in journal.with_others(here, there)[len(here) :]:
            if past.run != options.holder.run:
                journal.append(past)

    with fleet_run(requests, options) as (run, screen):
        ending = carry_out(run, screen, _question, then=lambda: run.forget(keep))
    code = conclude(run, ending, as_json=as_json, words=_WORDS)
    is_over = not (ending.is_declined or ending.is_interrupted)
    gone = {one.host for one in run.results if is_over and one.outcome in {"converged", "changed"}}
    declared = [host.name for host in chosen if host.spec is not None and host.name in gone]
    if declared and not as_json:
        file = (inventory_path or default_inventory()).name
        print_lines(
            f"Next: take {', '.join(declared)} out of {file}; `rigops apply` sets it up again"
        )
    return code


def _show(results: Sequence[HostResult], *, as_json: bool) -> int:
    if as_json:
        print_json({"schema": PLAN_SCHEMA, "hosts": [one.plan_json() for one in results]})
    else:
        width = text_width()
        released = [one.host for one in results if one.error is None]
        print_lines(*plan_lines(results, width, has_diffs=is_verbose()), "")
        for host in released:
            goes = ", ".join(FORGOTTEN)
            print_lines(*wrapped(f"{host}: then rigops is removed from it: {goes}", width, ""))
        print_lines("Nothing was touched.")
    return gravest(one.plan_code for one in results if one.plan_code != PENDING)


def _question(run: FleetRun) -> str:
    hosts = [one.host for one in run.results if one.error is None]
    return f"undo all of this and forget {named(hosts)}" if hosts else ""
