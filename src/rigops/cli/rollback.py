"""The command that reinstalls the driver that was proven before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import (
    EXIT_DECLINED,
    conclude,
    consent_options,
    fleet_run,
    host_options,
    host_requests,
    report,
)
from rigops.cli.consent import undo
from rigops.cli.options import inventory_option, read_inventory
from rigops.concerns.nvidia_driver import record as driver
from rigops.converge.concerns import Selection
from rigops.converge.request import Confirmed
from rigops.errors import usage_error

if TYPE_CHECKING:
    from rigops.concerns.concern import HostRequest
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.host_run import HostRun
    from rigops.inventory import Inventory

_DRIVER = "nvidia_driver"
_WORDS = {
    "converged": "already has that driver",
    "changed": "the driver that was proven before is installed",
    "reboot_owed": "the driver that was proven before is installed, reboot pending",
}


@click.command("rollback")
@click.argument("host")
@inventory_option
@click.option(
    "--what",
    type=click.Choice(("driver", "config", "root")),
    default="driver",
    show_default=True,
    help="What to roll back.",
)
@consent_options(reboot_help="The earlier driver runs only after a reboot.")
@host_options
def command(
    *,
    host: str,
    inventory_path: Path | None,
    what: str,
    yes: bool,
    reboot: str,
    allow_busy: bool,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Reinstall the driver that was proven on HOST before the current one.

    Takes its packages from the vault, without a network, and checks each against
    inventory.lock.json. Does not edit the inventory: if it declares the newer driver, prints the
    line to change.

    \b
    Examples:
      rigops rollback threadripper
      rigops rollback threadripper --yes --reboot auto
    """
    if what != "driver":
        raise usage_error(
            message=f"this version cannot roll back {what}",
            key="--what",
            value=what,
            accepted="driver",
        )
    inventory = read_inventory(inventory_path)
    request = _host_request(inventory, host)
    with fleet_run(
        "rollback",
        [request],
        Selection.of([_DRIVER], ()),
        inventory_digest=inventory.digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
    ) as (run, progress):
        ending = undo(
            run,
            progress,
            question=lambda: _question(run),
            yes=yes,
            reboot=reboot,
            confirmed=lambda reboots: Confirmed(reboots=reboots, busy=allow_busy),
        )
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    for one in run.runs:
        _add_declaration_hint(one)
    return conclude(
        run,
        as_json=as_json,
        is_interrupted=ending.is_interrupted,
        words=_WORDS,
        shown=ending.shown,
    )


def _host_request(inventory: Inventory, name: str) -> HostRequest:
    if inventory.host(name) is None:
        raise usage_error(
            message="not in the inventory", key="HOST", value=name, fix=inventory.nearest(name)
        )
    request = next(one for one in host_requests(inventory, ()) if one.name == name)
    if request.spec.driver is None:
        raise usage_error(message=f"no driver is declared for {name}", host=name, key="driver")
    return replace(request, back=True)


def _add_declaration_hint(run: HostRun) -> None:
    declared, pinned = run.request.spec.driver, driver.pinned(run.recorded(driver.PATH))
    version = pinned.version if pinned else ""
    if declared is None or run.result.outcome not in {"changed", "reboot_owed"}:
        return
    if declared.versions.contains(version, prereleases=True):
        text = f'driver = "{declared.text}" in the inventory includes {version}: apply keeps it'
    else:
        text = (
            f'the inventory declares driver = "{declared.text}"; write driver = "{version}", '
            "or the next apply installs the newer one again"
        )
    run.result.story.append(text)


def _question(run: FleetRun) -> str:
    pending = any(result.error is None and result.pending for result in run.results)
    return "reinstall this driver" if pending else ""
