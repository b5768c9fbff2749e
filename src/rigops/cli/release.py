"""The command that undoes everything that rigops owns on a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import (
    EXIT_DECLINED,
    EXIT_INTERRUPTED,
    consent_options,
    fleet_run,
    host_options,
    report,
)
from rigops.cli.consent import undo
from rigops.cli.hosts import choose_hosts
from rigops.cli.options import inventory_option
from rigops.concerns.concern import HostRequest
from rigops.converge.concerns import Selection
from rigops.converge.request import Confirmed
from rigops.converge.result import exit_code
from rigops.inventory.spec import RigSpec
from rigops.record import journal

if TYPE_CHECKING:
    from rigops.converge.fleet_run import FleetRun

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
    reboot: str,
    allow_busy: bool,
    drop_holds: bool,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
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
    with fleet_run(
        "release",
        [HostRequest(host.name, host.target, {}, RigSpec()) for host in chosen],
        Selection(),
        inventory_digest="",
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
        keep_holds=not drop_holds,
        preflight="never",
    ) as (run, progress):
        ending = undo(
            run,
            progress,
            question=lambda: _question(run),
            yes=yes,
            reboot=reboot,
            confirmed=lambda reboots: Confirmed(removals=True, reboots=reboots, busy=allow_busy),
            then=lambda: run.forget(_keep),
        )
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    report(run.results, as_json=as_json, words=_WORDS, shown=ending.shown)
    return EXIT_INTERRUPTED if ending.is_interrupted else exit_code(run.results)


def _question(run: FleetRun) -> str:
    names = ", ".join(one.host for one in run.results if one.error is None)
    return f"undo all of this and forget {names}" if names else ""


def _keep(host: str, lines: Sequence[bytes]) -> None:
    """Add what only the host's journal has to the journal of this machine."""
    known = {(past.at, past.inventory_digest) for past in journal.read(host=host).runs}
    for past in reversed(journal.parse(lines).runs):
        if (past.at, past.inventory_digest) not in known:
            journal.append(past)
