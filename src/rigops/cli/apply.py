"""The command that brings hosts to what is declared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import (
    EXIT_DECLINED,
    conclude,
    consent_options,
    failed_hosts,
    fleet_run,
    host_options,
    inventory_options,
    report,
    select_hosts,
)
from rigops.cli.consent import Item, Reboot, ask
from rigops.cli.options import is_verbose
from rigops.cli.output import text_width
from rigops.converge.request import Confirmed
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.request import PreflightWhen
    from rigops.plan.change import Repair


_PRUNE = "prune"
_NO_TRIAL = "no trial"


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
    interrupted = False
    shown: frozenset[str] = frozenset()
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
        try:
            run.plan()
            with progress.silent():
                shown = _show(run)
            while True:
                with progress.silent():
                    items = [*_items(run, prune=prune, no_trial=accept_no_trial)] if not yes else []
                    asked = Reboot.of(run, reboot)
                    allowed = ask(_pending(run), items, reboot=asked, yes=yes)
                if allowed is None:
                    if as_json:
                        report(run.results, as_json=True)
                    return EXIT_DECLINED
                to_repair = {host for host in _broken(run) if _repair_of(host) in allowed}
                if not to_repair:
                    break
                run.repair(to_repair)  # it makes another plan of these hosts
                with progress.silent():
                    shown = _show(run)
            confirmed = Confirmed(
                removals=prune or _PRUNE in allowed,
                no_trial=accept_no_trial or _NO_TRIAL in allowed,
                reboots=asked.allowed_by(allowed),
                busy=allow_busy,
                wedged=force_reboot_wedged,
                at_once=serial,
            )
            run.confirm(confirmed)
            run.carry_out(confirmed)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        print_lines("", "Interrupted. The state of each host:", err=True)
    return conclude(run, as_json=as_json, is_interrupted=interrupted, shown=shown)


def _show(run: FleetRun) -> frozenset[str]:
    """Prints the plan; gives the hosts whose error it shows."""
    width, every = text_width(sys.stderr), is_verbose()
    lines = plan_lines(run.results, width, has_changes=every, has_diffs=every)
    print_lines(*lines, err=True)
    return failed_hosts(run)


def _pending(run: FleetRun) -> str:
    """What a yes confirms in any case."""
    changing = [one.host for one in run.results if one.error is None and one.plan.pending]
    return f"change {', '.join(changing)}" if changing else ""


def _items(run: FleetRun, *, prune: bool, no_trial: bool) -> Iterator[Item]:
    """What a yes to the plan does not include: a lost group file must not undo what it declared."""
    for host, repairs in _broken(run).items():
        commands = ", ".join(dict.fromkeys(f"`{repair.command}`" for repair in repairs))
        broken = "; ".join(dict.fromkeys(repair.broken for repair in repairs))
        yield Item(_repair_of(host), f"{host}: first {commands}, since {broken}", "")
    undeclared = [
        f"{concern} on {result.host} ({', '.join(paths)})"
        for result in run.results
        for concern, paths in result.undeclared.items()
    ]
    if undeclared and not prune:
        yield Item(_PRUNE, f"undo what nothing declares: {'; '.join(undeclared)}", "--prune")
    hosts = [result.host for result in run.results if result.plan.no_trial]
    if hosts and not no_trial:
        text = f"{', '.join(hosts)}: make kernel arguments permanent that no boot can try first"
        yield Item(_NO_TRIAL, text, "--accept-no-trial")


def _broken(run: FleetRun) -> dict[str, list[Repair]]:
    """By host: interrupted work of its package manager that is not confirmed yet."""
    offered = {
        result.host: [repair for repair in result.plan.repairs if not repair.agreed]
        for result in run.results
    }
    return {host: repairs for host, repairs in offered.items() if repairs}


def _repair_of(host: str) -> str:
    return f"repair {host}"
