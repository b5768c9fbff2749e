"""The command that brings hosts to what is declared."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from rigops.cli.hosts import accept_host_key_option, host_key_policy
from rigops.cli.options import common, inventory_option, json_option, read_inventory, words
from rigops.cli.output import print_json
from rigops.converge.concerns import Selection
from rigops.converge.interrupt import deliver_to_caller
from rigops.converge.result import exit_code
from rigops.converge.run import Apply, Wanted
from rigops.errors import Problem, UsageError
from rigops.record import journal
from rigops.record.pairs import Pair
from rigops.report.apply import outcome_text, plan_text
from rigops.report.preflight import preflight_text
from rigops.spec.names import did_you_mean
from rigops.transport import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.converge.result import HostResult
    from rigops.inventory import Inventory, InventoryHost
    from rigops.preflight.document import HostFound

EXIT_DECLINED = EXIT_INTERRUPTED = 130
WIDEST = 100


@click.command("apply")
@click.argument("inventory_argument", metavar="[INVENTORY]", required=False, type=Path)
@inventory_option
@click.option("--limit", multiple=True, callback=words, metavar="PAT", help="Host, group or glob.")
@click.option("--only", multiple=True, callback=words, metavar="CONCERN", help="Nothing else.")
@click.option("--skip", multiple=True, callback=words, metavar="CONCERN", help="All but this.")
@click.option("--yes", is_flag=True, help="Confirm the plan. Reboots are asked for apart.")
@click.option(
    "--reboot",
    type=click.Choice(("ask", "auto", "never")),
    default="ask",
    show_default=True,
    help="ask without a terminal is never; never leaves the debt visible.",
)
@click.option(
    "--preflight",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Prove P2P afterwards. This version keeps no proof, so auto does it every time.",
)
@accept_host_key_option
@json_option
@common
def command(
    *,
    inventory_argument: Path | None,
    inventory_path: Path | None,
    limit: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    yes: bool,
    reboot: str,
    preflight: str,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make the hosts of INVENTORY what they are declared to be, and prove that P2P works.

    Plans, asks, changes, reboots where needed, looks again and runs preflight. What is not declared
    is not touched. Run it again after anything went wrong: it goes on from the truth on the host.

    \b
    Examples:
      rigops apply inventory.py
      rigops apply --limit threadripper --reboot auto
      rigops apply --yes --reboot never --preflight never --json
    """
    selection = Selection.of(only, skip)
    if inventory_argument is not None and inventory_path not in {None, inventory_argument}:
        raise UsageError(
            Problem(
                message=f"two inventories: {inventory_argument} and {inventory_path}",
                key="-i",
                cure="name one of them",
            )
        )
    inventory = read_inventory(inventory_argument or inventory_path)
    hosts = [
        Wanted(host.name, Target.from_host_data(host.name, host.data), host.data, host.spec)
        for host in _limited(inventory, limit)
    ]
    deliver_to_caller()
    run = Apply(hosts, selection, host_key_policy(accepted_keys), _tell)
    try:
        run.plan()
        click.echo(plan_text(run.results), err=True)
        to_do = [result for result in run.results if result.error is None]
        pending = any(result.pending for result in to_do)
        if pending and not yes and not _agreed():
            return EXIT_DECLINED
        may_reboot = _may_reboot(reboot, [r.host for r in to_do if r.reboot_reasons])
        for result in to_do:
            if result.outcome == "converged" or result.pending:
                run.change(result.host, may_reboot=may_reboot, with_preflight=preflight != "never")
            else:
                result.outcome = "refused"
            _note(result, run.seconds(result.host), inventory.digest)
            if result.outcome == "failed":
                break  # the first to fail spares the others
    except KeyboardInterrupt:
        click.echo("\nInterrupted. This is where each host stands:", err=True)
        _report(run, as_json=as_json)
        return EXIT_INTERRUPTED
    finally:
        run.close()
    _report(run, as_json=as_json)
    return exit_code(run.results)


def _limited(inventory: Inventory, patterns: Sequence[str]) -> list[InventoryHost]:
    hosts = [host for host in inventory.hosts if host.connector in {"ssh", "local"}]
    for pattern in patterns:
        if not any(_fits(host, pattern) for host in hosts):
            names = [name for host in hosts for name in (host.name, *host.groups)]
            raise UsageError(
                Problem(
                    message="no host or group of the inventory fits",
                    key="--limit",
                    value=pattern,
                    cure=did_you_mean(pattern, names),
                )
            )
    if not patterns:
        return hosts
    return [host for host in hosts if any(_fits(host, pattern) for pattern in patterns)]


def _fits(host: InventoryHost, pattern: str) -> bool:
    return pattern in host.groups or fnmatchcase(host.name, pattern)


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agreed() -> bool:
    if _asks():
        return click.confirm("Change these hosts?", err=True)
    click.echo("Declined: nobody is here to agree.\n    cure: --yes", err=True)
    return False


def _may_reboot(choice: str, hosts: Sequence[str]) -> bool:
    if choice != "ask" or not hosts:
        return choice == "auto"
    return _asks() and click.confirm(f"Reboot {', '.join(hosts)}?", err=True)


def _tell(host: str, text: str) -> None:
    click.echo(f"{host}: {text}", err=True)


def _note(result: HostResult, seconds: float, inventory_digest: str) -> None:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = journal.Run(
        host=result.host,
        at=now,
        inventory_digest=inventory_digest,
        outcome=result.outcome,
        seconds=round(seconds, 3),
        versions={},
        preflight=_proof(result.preflight) if result.preflight else None,
    )
    journal.append(entry)


def _proof(found: HostFound) -> journal.Preflight:
    pairs = tuple(
        Pair(pair.source, pair.target, pair.verdict, pair.gb_per_s) for pair in found.pairs
    )
    return journal.Preflight(found.status, found.level or "", pairs)


def _report(run: Apply, *, as_json: bool) -> None:
    if as_json:
        hosts = [result.as_json() for result in run.results]
        print_json({"schema": "rigops.apply/1", "hosts": hosts})
        return
    proofs = [result.preflight for result in run.results if result.preflight]
    if proofs:
        click.echo(preflight_text(proofs, min(get_terminal_size().columns, WIDEST)))
    click.echo(outcome_text(run.results))
