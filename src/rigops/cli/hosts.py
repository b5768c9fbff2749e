"""The hosts of a command, the host keys that it trusts, and work on many hosts at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rigops.cli.options import default_inventory, existing_inventory, read_inventory, words
from rigops.cli.output import has_keyboard, has_terminal, warn
from rigops.dataclass import dataclass
from rigops.errors import usage_error
from rigops.report.terminal import print_lines
from rigops.transport import LOCAL, HostKeyPolicy, Target
from rigops.transport.clock import SLICE_S, start_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rigops.catalog import Catalog
    from rigops.inventory import Inventory
    from rigops.inventory.spec import RigSpec
    from rigops.power import Neighbor
    from rigops.record.lockfile import LockedHost
    from rigops.transport import UnknownKey

Command = TypeVar("Command", bound="Callable[..., Any]")
Host = TypeVar("Host")
Outcome = TypeVar("Outcome")

_AT_ONCE = 64


@dataclass(frozen=True)
class Chosen:
    """A host to reach; `spec` is None where no inventory declares anything for it.

    `neighbors`: other hosts of the inventory on its circuits. `digest`: of the inventory.
    """

    name: str
    target: Target
    spec: RigSpec | None
    neighbors: tuple[Neighbor, ...] = ()
    digest: str = ""


accept_host_key_option = click.option(
    "--accept-host-key",
    "accepted_keys",
    multiple=True,
    callback=words,
    metavar="SHA256:…",
    help="Trust an unknown host key with this fingerprint (repeatable).",
)


ask_sudo_password_option = click.option(
    "--ask-sudo-password",
    "asks_sudo_password",
    is_flag=True,
    help="Ask once for the sudo password of the hosts.",
)


def sudo_password(*, asked: bool) -> str | None:
    if not asked:
        return None
    if not has_keyboard():
        raise usage_error(
            message="no terminal to type a password on",
            key="--ask-sudo-password",
            fix="log in as root, or allow sudo without a password on the host",
        )
    password: str = click.prompt("sudo password", hide_input=True, err=True)
    return password


def choose_hosts(
    named: Sequence[str], inventory_path: Path | None, *, needs_inventory: bool = True
) -> tuple[Chosen, ...]:
    """Hosts by inventory name, ssh alias or user@host:port.

    Without names: every host of the inventory, as is said on stderr. Where there is none, and none
    is needed, this machine.
    """
    is_required = needs_inventory and not named
    inventory = (read_inventory if is_required else existing_inventory)(inventory_path)
    if named:
        return tuple(_named(word, inventory) for word in dict.fromkeys(named))
    if inventory is None:
        print_lines("this machine", err=True)
        return (Chosen("@local", LOCAL, None),)
    chosen = tuple(
        Chosen(
            host.name,
            Target.from_host_data(host.name, host.data),
            host.spec,
            find_neighbors(inventory, host.name),
            inventory.digest,
        )
        for host in inventory.hosts
        if host.connector in {"ssh", "local"}
    )
    print_lines(f"{inventory.path}: {len(chosen)} host{'s' * (len(chosen) != 1)}", err=True)
    return chosen


def host_key_policy(
    accepted_keys: Iterable[str],
    while_asking: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> HostKeyPolicy:
    """Ask about an unknown key on a terminal; without one, refuse it."""
    keys = frozenset(accepted_keys)
    for key in keys:
        if not key.startswith("SHA256:"):
            raise usage_error(
                message="not a host key fingerprint",
                key="--accept-host-key",
                value=key,
                accepted="SHA256:…, from ssh-keygen -l",
            )

    def ask(key: UnknownKey) -> bool:
        head = f"Unknown host {key.host}. Its {key.key_type} key:"
        with while_asking():
            print_lines(head, f"  {key.fingerprint}", err=True)
            try:
                return click.confirm("Trust this key and save it?", err=True)
            except click.Abort:
                raise KeyboardInterrupt from None

    return HostKeyPolicy(accept=keys, ask=ask if has_terminal() else None)


def host_catalog(spec: RigSpec | None, inventory_path: Path | None) -> Catalog:
    """With the entries that a host's declaration adds."""
    from rigops.catalog import load_once

    folder = (inventory_path or default_inventory()).parent
    named = spec.catalog if spec else None
    return load_once(folder / Path(named).expanduser() if named else None)


def read_catalogs(specs: Iterable[RigSpec | None], inventory_path: Path | None) -> None:
    """Those that declarations name: a broken one is a usage error, not a host's."""
    for spec in specs:
        if spec and spec.catalog:
            host_catalog(spec, inventory_path)


def locked_hosts(chosen: Sequence[Chosen], inventory: Path) -> Mapping[str, LockedHost]:
    """What the lockfile of the inventory has of its hosts."""
    from rigops.record import lockfile

    own = {one.name for one in chosen if one.spec is not None}
    known = lockfile.read(lockfile.path_of(inventory)).hosts if own else {}
    return {name: one for name, one in known.items() if name in own}


def for_each(
    hosts: Sequence[Host],
    work: Callable[[Host], Outcome],
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Outcomes in the order of the hosts; an exception from `work` ends all.

    Each host has a thread, which Ctrl-C does not wait for.
    """
    gate = threading.Semaphore(_AT_ONCE)

    def run(host: Host) -> Outcome:
        with gate:
            return work(host)

    futures = [start_thread(partial(run, host)) for host in hosts]
    meanwhile()
    waiting: Collection[Future[Outcome]] = futures
    while waiting:
        done, waiting = wait(waiting, SLICE_S, FIRST_EXCEPTION)
        for future in done:
            future.result()
    return [future.result() for future in futures]


def _named(word: str, inventory: Inventory | None) -> Chosen:
    host = inventory.host(word) if inventory else None
    if host is None:
        hint = inventory.nearest(word) if inventory else ""
        if hint:
            warn([f"{word} is not in the inventory; using it as an ssh host; {hint}"])
        return Chosen(word, Target.parse(word), None)
    if host.connector not in {"ssh", "local"}:
        raise usage_error(
            message=f"connector {host.connector} is not supported; rigops uses ssh or @local",
            host=word,
        )
    target = Target.from_host_data(host.name, host.data)
    digest = inventory.digest if inventory else ""
    return Chosen(word, target, host.spec, find_neighbors(inventory, word), digest)


def find_neighbors(inventory: Inventory | None, name: str) -> tuple[Neighbor, ...]:
    """Other hosts of the inventory on a circuit of this host."""
    host = inventory.host(name) if inventory else None
    circuits = host.spec.circuits or () if host else ()
    if inventory is None or not any(circuit.name for circuit in circuits):
        return ()
    from rigops.power import sharing

    return sharing(name, {one.name: one.spec for one in inventory.hosts})
