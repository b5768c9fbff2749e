"""The command that brings hosts to what is declared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import (
    EXIT_DECLINED,
    conclude,
    consent_options,
    fleet_run,
    host_options,
    inventory_options,
    report,
    select_hosts,
)
from rigops.cli.applying import Answers, apply
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.converge.request import PreflightWhen


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
    inventory_argument: Path | None,
    inventory_path: Path | None,
    limit: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    yes: bool,
    reboot: str,
    serial: int,
    prune: bool,
    allow_busy: bool,
    accept_no_trial: bool,
    upgrade: bool,
    remove_foreign_driver: bool,
    force_reboot_wedged: bool,
    preflight: PreflightWhen,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Apply INVENTORY to its hosts, and prove that P2P works.

    Plans, asks, changes, reboots where needed, verifies and runs preflight. What is not declared is
    not touched. After a failure, run it again: it continues from the state of the host.

    \b
    Examples:
      rigops apply inventory.py
      rigops apply --limit threadripper --reboot auto
      rigops apply --only kernel_args --yes --reboot never
      rigops apply --yes --reboot auto --serial 4 --json
    """
    hosts, selection, digest = select_hosts(
        inventory_argument, inventory_path, limit=limit, only=only, skip=skip
    )
    consent = Answers(
        yes=yes,
        reboot=reboot,
        prune=prune,
        allow_busy=allow_busy,
        accept_no_trial=accept_no_trial,
        force_reboot_wedged=force_reboot_wedged,
        serial=serial,
    )
    with fleet_run(
        "apply",
        hosts,
        selection,
        inventory_digest=digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
        upgrade=upgrade,
        remove_foreign_driver=remove_foreign_driver,
        withholds_removals=yes and not prune,
        preflight=preflight,
    ) as (run, progress):
        ending = apply(run, progress, consent)
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    if ending.is_interrupted:
        print_lines("", "Interrupted. The state of each host:", err=True)
    return conclude(run, as_json=as_json, is_interrupted=ending.is_interrupted, shown=ending.shown)
