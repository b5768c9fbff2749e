"""The command that undoes everything that rigops owns on a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import conclude, consent_options, fleet_run
from rigops.cli.hosts import choose_hosts, host_options
from rigops.cli.options import default_inventory, inventory_option
from rigops.concerns.concern import HostRequest
from rigops.converge.concerns import Selection
from rigops.converge.flow import carry_out
from rigops.converge.request import RunOptions
from rigops.inventory.spec import RigSpec
from rigops.record import journal
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.cli.hosts import AskAccess
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.request import RebootWhen

_WORDS = {
    "converged": "released; rigops owned nothing",
    "changed": "released",
    "reboot_owed": "undone, reboot pending; run release again after it to forget the host",
}


@click.command("release")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST…")
@inventory_option
@consent_options(reboot_help="If the undo needs one; until then the host is not forgotten.")
@click.option("--drop-holds", is_flag=True, help="Release the holds of the driver's packages too.")
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    yes: bool,
    reboot: RebootWhen,
    allow_busy: bool,
    drop_holds: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Undo everything that rigops owns on each HOST, and forget the host.

    Shows the plan, asks, and restores what was there before rigops. What somebody changed since is
    not touched, but reported. Held packages stay held: without the pin, the next upgrade could
    bring another driver. The journal of the host stays on this machine.

    \b
    Examples:
      rigops release threadripper
      rigops release old-rig --yes --reboot auto
    """
    journal.require_writable()  # since it is to keep what the hosts forget
    chosen = choose_hosts(hosts, inventory_path)
    requests = [HostRequest(host.name, host.target, {}, RigSpec()) for host in chosen]
    options = RunOptions(
        command="release",
        selection=Selection(),
        access=access(),
        yes=yes,
        reboot=reboot,
        prune=True,
        allow_busy=allow_busy,
        keep_holds=not drop_holds,
        preflight="never",
    )
    with fleet_run(requests, options) as (run, screen):
        ending = carry_out(run, screen, _question, then=lambda: run.forget(_keep))
    code = conclude(run, ending, as_json=as_json, words=_WORDS, is_recorded=False)
    is_over = not (ending.is_declined or ending.is_interrupted)
    gone = {one.host for one in run.results if is_over and one.outcome in {"converged", "changed"}}
    declared = [host.name for host in chosen if host.spec is not None and host.name in gone]
    if declared and not as_json:
        file = (inventory_path or default_inventory()).name
        print_lines(
            f"Next: take {', '.join(declared)} out of {file}; `rigops apply` sets it up again"
        )
    return code


def _question(run: FleetRun) -> str:
    names = ", ".join(one.host for one in run.results if one.error is None)
    return f"undo all of this and forget {names}" if names else ""


def _keep(host: str, lines: Sequence[bytes]) -> None:
    """Add what only the host's journal has to the journal of this machine."""
    known = {(past.at, past.inventory_digest) for past in journal.read(host=host).runs}
    for past in reversed(journal.parse(lines).runs):
        if (past.at, past.inventory_digest) not in known:
            journal.append(past)
