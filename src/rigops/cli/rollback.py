"""The command that goes back: to the driver proven before, or to the root of a snapshot."""

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
from rigops.cli.config_rollback import CONFIG_WORDS, earlier_request, lines_to_change
from rigops.cli.consent import undo
from rigops.cli.hosts import host_key_policy
from rigops.cli.options import inventory_option, read_inventory
from rigops.cli.root_rollback import roll_back_root
from rigops.concerns.nvidia_driver import record as driver
from rigops.converge.concerns import Selection
from rigops.converge.request import Confirmed
from rigops.errors import usage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

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
@click.option(
    "--at",
    "when",
    default="",
    metavar="WHEN",
    help="With --what root: 2026-11-24, 3d (ago), or a snapshot's name "
    "[default: the newest that apply took].",
)
@consent_options(reboot_help="The earlier driver, or root, runs only after a reboot.")
@host_options
def command(
    *,
    host: str,
    inventory_path: Path | None,
    what: str,
    when: str,
    yes: bool,
    reboot: str,
    allow_busy: bool,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Bring HOST back to its earlier driver or configuration, or its root back to a snapshot.

    driver: takes the packages from the vault, without a network, and checks each against
    inventory.lock.json. Does not edit the inventory: if it declares the newer driver, prints the
    line to change.

    config: applies what was declared before, and worked, except the driver. Prints the lines of
    the inventory to change, or the next apply goes forward again.

    root: puts a snapshot of a btrfs root in force, reboots, and tests P2P. The present root stays
    aside. Without --at: the newest snapshot that apply took before its changes.

    \b
    Examples:
      rigops rollback threadripper
      rigops rollback threadripper --yes --reboot auto
      rigops rollback threadripper --what config
      rigops rollback threadripper --what root
      rigops rollback threadripper --what root --at 20261125T060001Z-apply
    """
    if when and what != "root":
        raise usage_error(message="only --what root takes a time", key="--at", value=when)
    inventory = read_inventory(inventory_path)
    request = _host_request(inventory, host)
    if what == "root":
        return roll_back_root(
            request,
            inventory.digest,
            when,
            yes=yes,
            reboot=reboot,
            allow_busy=allow_busy,
            accepted_keys=accepted_keys,
            asks_sudo_password=asks_sudo_password,
            as_json=as_json,
        )
    now = request.data
    if what == "config":
        request = earlier_request(request, host_key_policy(accepted_keys))
        selection, words = Selection.of((), [_DRIVER]), CONFIG_WORDS
    elif request.spec.driver is None:
        raise usage_error(message=f"no driver is declared for {host}", host=host, key="driver")
    else:
        request = replace(request, back=True)
        selection, words = Selection.of([_DRIVER], ()), _WORDS
    with fleet_run(
        "rollback",
        [request],
        selection,
        inventory_digest=inventory.digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
    ) as (run, progress):
        ending = undo(
            run,
            progress,
            question=lambda: _question(run, what),
            yes=yes,
            reboot=reboot,
            confirmed=lambda reboots: Confirmed(
                removals=what == "config", reboots=reboots, busy=allow_busy
            ),
        )
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    for one in run.runs:
        if one.result.outcome in {"converged", "changed", "reboot_owed"}:
            is_driver = what == "driver"
            hints = _driver_to_change(one) if is_driver else lines_to_change(now, request)
            one.result.story += hints
    return conclude(
        run,
        as_json=as_json,
        is_interrupted=ending.is_interrupted,
        words=words,
        shown=ending.shown,
    )


def _host_request(inventory: Inventory, name: str) -> HostRequest:
    if inventory.host(name) is None:
        raise usage_error(
            message="not in the inventory", key="HOST", value=name, fix=inventory.nearest(name)
        )
    return next(one for one in host_requests(inventory, ()) if one.name == name)


def _driver_to_change(run: HostRun) -> Iterator[str]:
    declared, pinned = run.request.spec.driver, driver.pinned(run.recorded(driver.PATH))
    version = pinned.version if pinned else ""
    if declared is None or run.result.outcome == "converged":
        return
    if declared.versions.contains(version, prereleases=True):
        yield f'driver = "{declared.text}" in the inventory includes {version}: apply keeps it'
    else:
        yield (
            f'the inventory declares driver = "{declared.text}"; write driver = "{version}", '
            "or the next apply installs the newer one again"
        )


def _question(run: FleetRun, what: str) -> str:
    pending = any(result.error is None and result.pending for result in run.results)
    verb = {"driver": "reinstall this driver", "config": "go back to this configuration"}[what]
    return verb if pending else ""
