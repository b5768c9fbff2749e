"""The command that brings hosts to what is declared."""

from __future__ import annotations

import click

from rigops.cli.apply_common import (
    Selected,
    conclude,
    consent_options,
    fleet_run,
    inventory_options,
)
from rigops.cli.hosts import AskAccess, host_options
from rigops.converge.flow import apply
from rigops.converge.request import PreflightWhen, RebootWhen, RunOptions


@click.command("apply")
@inventory_options
@consent_options(reboot_help="Without a terminal, ask means never; a pending reboot is reported.")
@click.option(
    "--serial",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Reboot this many hosts at once, after the first has come back alone.",
)
@click.option("--prune", is_flag=True, help="Undo concerns that are no longer declared at all.")
@click.option(
    "--accept-no-trial",
    is_flag=True,
    help="Make kernel arguments permanent at once where no trial boot is possible.",
)
@click.option(
    "--upgrade",
    is_flag=True,
    help="Install the newest version that fits the declaration.",
)
@click.option(
    "--remove-foreign-driver",
    is_flag=True,
    help="Uninstall a driver that NVIDIA's own installer installed.",
)
@click.option(
    "--force-reboot-wedged",
    is_flag=True,
    help="Force the reboot of a host whose driver hangs.",
)
@click.option(
    "--preflight",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Test P2P afterwards; auto: if the state of the host is not proven yet.",
)
@host_options
def command(
    *,
    selected: Selected,
    yes: bool,
    reboot: RebootWhen,
    serial: int,
    prune: bool,
    allow_busy: bool,
    accept_no_trial: bool,
    upgrade: bool,
    remove_foreign_driver: bool,
    force_reboot_wedged: bool,
    preflight: PreflightWhen,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Apply the inventory to each HOST, and prove that P2P works.

    HOST is a name, group or glob of the inventory, or the inventory file itself. Without HOST:
    every host of the inventory. Plans, asks, changes, reboots where needed, verifies and runs
    preflight. Undeclared settings are not touched. After a failure, run it again: it continues
    from the state of the host.

    \b
    Examples:
      rigops apply                             every host of ./inventory.py
      rigops apply rig1 rig5 --reboot auto
      rigops apply --only kernel_args --yes --reboot never
      rigops apply --yes --reboot auto --serial 4 --json
    """
    options = RunOptions(
        selection=selected.selection,
        inventory_digest=selected.digest,
        access=access(),
        yes=yes,
        reboot=reboot,
        serial=serial,
        prune=prune,
        allow_busy=allow_busy,
        accept_no_trial=accept_no_trial,
        force_reboot_wedged=force_reboot_wedged,
        upgrade=upgrade,
        remove_foreign_driver=remove_foreign_driver,
        preflight=preflight,
    )
    with fleet_run(selected.requests, options) as (run, screen):
        ending = apply(run, screen)
    return conclude(run, ending, as_json=as_json, again=selected.again)
