"""What plan, apply and release have in common: which hosts, which concerns, who asks, who tells."""

from __future__ import annotations

import getpass
import socket
import sys
import uuid
from contextlib import contextmanager
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rigops.catalog import load
from rigops.cli.hosts import (
    accept_host_key_option,
    ask_sudo_password_option,
    host_key_policy,
    sudo_password,
)
from rigops.cli.options import common, inventory_option, json_option, read_inventory, words
from rigops.cli.output import print_json, warn
from rigops.cli.progress import Progress
from rigops.converge.concerns import Selection, deploys
from rigops.converge.interrupt import deliver_to_caller
from rigops.converge.lock import Holder
from rigops.converge.run import Apply
from rigops.converge.wanted import Run, Wanted
from rigops.errors import Problem, RigopsError, UsageError
from rigops.record import lock
from rigops.report.apply import outcome_text
from rigops.report.preflight import preflight_text
from rigops.spec.names import did_you_mean
from rigops.transport import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from rigops.catalog import Catalog
    from rigops.converge.result import HostResult
    from rigops.inventory import Inventory, InventoryHost
    from rigops.record.lock import LockedHost

Command = TypeVar("Command", bound="Callable[..., Any]")

APPLY_SCHEMA = "rigops.apply/1"
WIDEST = 100
EXIT_DECLINED = EXIT_INTERRUPTED = 130


def inventory_options(function: Command) -> Command:
    """Which inventory, and what of it."""
    for option in (
        click.option(
            "--skip", multiple=True, callback=words, metavar="CONCERN", help="All but this."
        ),
        click.option(
            "--only", multiple=True, callback=words, metavar="CONCERN", help="Nothing else."
        ),
        click.option(
            "--limit", multiple=True, callback=words, metavar="PAT", help="Host, group or glob."
        ),
        inventory_option,
        click.argument("inventory_argument", metavar="[INVENTORY]", required=False, type=Path),
    ):
        function = option(function)
    return function


def consent_options(*, reboot_help: str) -> Callable[[Command], Command]:
    def options(function: Command) -> Command:
        for option in (
            click.option("--allow-busy", is_flag=True, help="Go on although GPU jobs are running."),
            click.option(
                "--reboot",
                type=click.Choice(("ask", "auto", "never")),
                default="ask",
                show_default=True,
                help=reboot_help,
            ),
            click.option(
                "--yes", is_flag=True, help="Confirm the plan. Reboots are asked for apart."
            ),
        ):
            function = option(function)
        return function

    return options


def host_options(function: Command) -> Command:
    """How hosts are reached, and what is said of them."""
    for option in (common, json_option, accept_host_key_option, ask_sudo_password_option):
        function = option(function)
    return function


def chosen(
    argument: Path | None,
    option: Path | None,
    *,
    limit: Sequence[str],
    only: Sequence[str],
    skip: Sequence[str],
) -> tuple[list[Wanted], Selection, str]:
    """Hosts, concerns, and the digest of the inventory that they are from."""
    selection = Selection.of(only, skip)
    inventory = the_inventory(argument, option)
    return limited(inventory, limit), selection, inventory.digest


def the_inventory(argument: Path | None, option: Path | None) -> Inventory:
    if argument is not None and option not in {None, argument}:
        raise UsageError(
            Problem(
                message=f"two inventories: {argument} and {option}",
                key="-i",
                cure="name one of them",
            )
        )
    return read_inventory(argument or option)


@contextmanager
def converging(
    doing: str,
    hosts: Sequence[Wanted],
    selection: Selection,
    *,
    inventory_digest: str,
    accepted_keys: Sequence[str],
    asks_sudo_password: bool,
    allow_busy: bool = False,
    upgrade: bool = False,
    remove_foreign_driver: bool = False,
) -> Iterator[tuple[Apply, Progress]]:
    """A run on these hosts, whose connections end with it."""
    password = sudo_password(asked=asks_sudo_password)
    deliver_to_caller()
    started = now()
    with Progress(doing) as progress:
        holder = Holder(f"{getpass.getuser()}@{socket.gethostname()}", str(uuid.uuid4()), started)
        run = Apply(
            hosts,
            Run(
                selection=selection,
                deploys=deploys(selection),
                host_keys=host_key_policy(accepted_keys),
                sudo_password=password,
                holder=holder,
                inventory_digest=inventory_digest,
                at=started,
                tell=progress.say,
                allow_busy=allow_busy,
                upgrade=upgrade,
                remove_foreign_driver=remove_foreign_driver,
            ),
        )
        try:
            yield run, progress
        finally:
            run.close()


def limited(inventory: Inventory, patterns: Sequence[str]) -> list[Wanted]:
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
    path = lock.path_of(inventory.path)
    known = lock.read(path)
    return [
        Wanted(
            host.name,
            Target.from_host_data(host.name, host.data),
            _with_catalogue(host, inventory.path),
            host.spec,
            locked=known.hosts.get(host.name),
            lock=path,
        )
        for host in hosts
        if not patterns or any(_fits(host, pattern) for pattern in patterns)
    ]


def _with_catalogue(host: InventoryHost, inventory: Path) -> Mapping[str, object]:
    """Its data; a deploy knows no inventory that its catalogue could lie beside."""
    if not host.spec.catalog:
        return host.data
    path = inventory.parent.absolute() / Path(host.spec.catalog).expanduser()
    _sound(path)  # a broken one is a fault of the command, and not of a host
    return {**host.data, "catalog": str(path)}


@cache
def _sound(path: Path) -> Catalog:
    return load(path)


def asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    if asks():
        return click.confirm(question, err=True)
    click.echo("Declined: nobody is here to agree.\n    cure: --yes", err=True)
    return False


def reboots(run: Apply, choice: str) -> frozenset[str]:
    """The hosts that may be rebooted, of those that owe it."""
    owing = [rig.wanted.name for rig in run.rigs if rig.owes_reboot]
    if not owing or choice == "never" or (choice == "ask" and not asks()):
        return frozenset()
    if choice == "ask" and not click.confirm(f"Reboot {', '.join(owing)}?", err=True):
        return frozenset()
    return frozenset(owing)


def failed(run: Apply) -> frozenset[str]:
    """The hosts of which there is nothing but an error."""
    return frozenset(result.host for result in run.results if result.error is not None)


def report(
    results: Sequence[HostResult],
    *,
    as_json: bool,
    words: Mapping[str, str] | None = None,
    told: Collection[str] = (),
) -> None:
    """`words` and `told`: see outcome_text."""
    if as_json:
        hosts = [result.as_json() for result in results]
        print_json({"schema": APPLY_SCHEMA, "hosts": hosts})
    else:
        click.echo(outcome_text(results, words, told=told))


def tell_proofs(run: Apply, *, as_json: bool) -> None:
    proofs = [result.preflight for result in run.results if result.preflight]
    if proofs and not as_json:
        click.echo(preflight_text(proofs, min(get_terminal_size().columns, WIDEST)))


def write_lock(run: Apply) -> None:
    """What was proven, next to the inventory. That nobody could write it undoes no proof."""
    found: dict[Path, dict[str, LockedHost]] = {}
    for rig in run.rigs:
        if rig.result.lock is not None and rig.wanted.lock is not None:
            found.setdefault(rig.wanted.lock, {})[rig.wanted.name] = rig.result.lock
    try:
        for path, hosts in found.items():
            if lock.update(path, hosts):
                click.echo(f"{path.name} was written: keep it with the inventory", err=True)
    except RigopsError as error:
        warn([f"{one.message}: {one.cure}" for one in error.problems])


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fits(host: InventoryHost, pattern: str) -> bool:
    return pattern in host.groups or fnmatchcase(host.name, pattern)
