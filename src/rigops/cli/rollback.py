"""The command that takes a host back to what was proven before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rigops.cli.converging import (
    EXIT_DECLINED,
    EXIT_INTERRUPTED,
    consent_options,
    converging,
    host_options,
    limited,
    reboots,
    report,
    tell_proofs,
    the_inventory,
    write_lock,
)
from rigops.cli.options import inventory_option
from rigops.cli.taking_back import take_back
from rigops.converge.agreement import Agreement
from rigops.converge.concerns import Selection
from rigops.converge.result import exit_code
from rigops.errors import Problem, UsageError
from rigops.record import journal

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.converge.rig import Rig
    from rigops.converge.run import Apply
    from rigops.converge.wanted import Wanted
    from rigops.inventory import Inventory

_DRIVER = "nvidia_driver"
_WORDS = {
    "converged": "has that driver already",
    "changed": "is back at the driver that was proven before",
    "reboot_owed": "is back but for a reboot",
}


@click.command("rollback")
@click.argument("host")
@inventory_option
@click.option(
    "--what",
    type=click.Choice(("driver", "config", "root")),
    default="driver",
    show_default=True,
    help="What goes back.",
)
@consent_options(reboot_help="The earlier driver runs only after one.")
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
    """Take HOST back to the driver that was proven there before the present one.

    Its packages come from the vault alone, so that it needs no network, and each is checked against
    inventory.lock.json. The inventory is not edited: where it declares the newer driver, the line
    to write instead is told, or the next apply would go forward again.

    \b
    Examples:
      rigops rollback threadripper
      rigops rollback threadripper --yes --reboot auto
    """
    if what != "driver":
        raise UsageError(
            Problem(
                message=f"going back to an earlier {what} is not in this version",
                key="--what",
                value=what,
                accepted="driver",
            )
        )
    inventory = the_inventory(None, inventory_path)
    wanted = _the_host(inventory, host)
    with converging(
        "going back",
        [wanted],
        Selection.of([_DRIVER], ()),
        inventory_digest=inventory.digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
    ) as (run, progress):
        ending = take_back(
            run,
            progress,
            question=lambda: _question(run),
            yes=yes,
            agreement=lambda: Agreement(reboots=reboots(run, reboot), busy=allow_busy),
        )
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    for rig in run.rigs:
        if rig.result.outcome not in {"not_run", "unreachable"}:
            journal.append(rig.journal_entry())
        _tell_what_to_declare(rig)
    write_lock(run)
    tell_proofs(run, as_json=as_json)
    report(run.results, as_json=as_json, words=_WORDS, told=ending.told)
    return EXIT_INTERRUPTED if ending.is_interrupted else exit_code(run.results)


def _the_host(inventory: Inventory, name: str) -> Wanted:
    if inventory.host(name) is None:
        raise UsageError(
            Problem(
                message="there is no such host in the inventory",
                key="HOST",
                value=name,
                cure=inventory.nearest(name),
            )
        )
    wanted = next(one for one in limited(inventory, ()) if one.name == name)
    if wanted.spec.driver is None:
        raise UsageError(
            Problem(
                message=f"no driver is declared for {name}, so rigops has none there to take back",
                host=name,
                key="driver",
            )
        )
    return replace(wanted, back=True)


def _tell_what_to_declare(rig: Rig) -> None:
    wish, version = rig.wanted.spec.driver, rig.pinned_driver
    if wish is None or rig.result.outcome not in {"changed", "reboot_owed"}:
        return
    if wish.versions.contains(version, prereleases=True):
        text = f'driver = "{wish.text}" in the inventory takes {version} too: apply keeps it'
    else:
        text = (
            f'the inventory declares driver = "{wish.text}": write driver = "{version}" there, '
            "or the next apply goes forward again"
        )
    rig.result.story.append(text)


def _question(run: Apply) -> str:
    pending = any(result.error is None and result.pending for result in run.results)
    return "Go back to this driver?" if pending else ""
