"""The hosts of a command, and how it reaches them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import click

from rigops.cli.options import (
    Command,
    combined,
    common,
    default_inventory,
    existing_inventory,
    json_option,
    read_inventory,
    words,
)
from rigops.cli.output import has_keyboard, has_terminal, warn
from rigops.errors import UsageError, usage_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.report.terminal import print_lines
from rigops.transport import LOCAL, HostKeyPolicy, Target, UnknownKey

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.inventory import Inventory, InventoryHost
    from rigops.inventory.spec import RigSpec
    from rigops.power import Neighbor
    from rigops.record.lockfile import LockedHost
    from rigops.report.closing import Again


class AskAccess(Protocol):
    """`root`: only then the password of sudo is asked for."""

    def __call__(self, *, root: bool = True) -> HostAccess: ...


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


def access_options(function: Command) -> Command:
    """The options for a command on hosts as root, which gets them as `access`: AskAccess."""

    @wraps(function)
    def with_access(
        *, asks_sudo_password: bool, accepted_keys: tuple[str, ...], **others: object
    ) -> object:
        policy = host_key_policy(accepted_keys)

        def ask_access(*, root: bool = True) -> HostAccess:
            return HostAccess(policy, sudo_password(asked=asks_sudo_password and root))

        return function(access=ask_access, **others)

    return ask_sudo_password_option(accept_host_key_option(cast("Command", with_access)))


host_options = combined(access_options, json_option, common)


def called_again(inventory_path: Path | None) -> Again:
    from rigops.report.closing import Again

    context = click.get_current_context(silent=True)
    return Again(
        ("-i", str(inventory_path)) if inventory_path else (),
        asks_password=bool(context and context.params.get("asks_sudo_password")),
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
    """Hosts by a name, group or glob of the inventory, ssh alias or user@host:port.

    Without names: every host of the inventory, as is said on stderr. Where there is none, and none
    is needed, this machine.
    """
    is_required = needs_inventory and not named
    inventory = (read_inventory if is_required else existing_inventory)(inventory_path)
    if named:
        found = (host for word in named for host in _named(word, inventory))
        return tuple({host.name: host for host in found}.values())
    if inventory is None:
        print_lines("this machine", err=True)
        return (Chosen("@local", LOCAL, None),)
    chosen = tuple(chosen_host(host, inventory) for host in inventory.supported)
    print_lines(f"{inventory.path}: {len(chosen)} host{'s' * (len(chosen) != 1)}", err=True)
    return chosen


def choose_host(word: str, inventory_path: Path | None) -> Chosen:
    """As `choose_hosts`; UsageError where the word is of several."""
    chosen = choose_hosts((word,), inventory_path)
    if len(chosen) != 1:
        raise several_hosts("HOST", chosen)
    return chosen[0]


def several_hosts(option: str, chosen: Sequence[Chosen]) -> UsageError:
    return usage_error(
        message=f"takes one host, and {len(chosen)} are chosen", key=option, fix="name one host"
    )


def host_key_policy(accepted_keys: Iterable[str]) -> HostKeyPolicy:
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
        print_lines(head, f"  {key.fingerprint}", err=True)
        try:
            return click.confirm("Trust this key and save it?", err=True)
        except click.Abort:
            raise KeyboardInterrupt from None

    return HostKeyPolicy(accept=keys, ask=ask if has_terminal() else None)


def host_catalog(spec: RigSpec | None) -> Catalog:
    """With the entries that a host's declaration adds."""
    from rigops.catalog import load_once

    return load_once(Path(spec.catalog) if spec and spec.catalog else None)


def read_catalogs(specs: Iterable[RigSpec | None]) -> None:
    """Those that declarations name: a broken one is a usage error, not a host's."""
    for spec in specs:
        if spec and spec.catalog:
            host_catalog(spec)


def locked_hosts(chosen: Sequence[Chosen], inventory_path: Path | None) -> Mapping[str, LockedHost]:
    """The lockfile's entries of the inventory's hosts."""
    from rigops.record import lockfile

    inventory = inventory_path or default_inventory()
    own = {one.name for one in chosen if one.spec is not None}
    known = lockfile.read(lockfile.path_of(inventory)).hosts if own else {}
    return {name: one for name, one in known.items() if name in own}


def _named(word: str, inventory: Inventory | None) -> list[Chosen]:
    if inventory is None:
        return [Chosen(word, Target.parse(word), None)]
    if host := inventory.host(word):
        require_connector(host)
    if fitting := [chosen_host(host, inventory) for host in inventory.supported if host.fits(word)]:
        return fitting
    if "*" in word or "?" in word:
        inventory.require_fitting((word,), "HOST")
    if hint := inventory.nearest(word):
        warn([f"{word} is not in the inventory; using it as an ssh host; {hint}"])
    return [Chosen(word, Target.parse(word), None)]


def require_connector(host: InventoryHost) -> None:
    if not host.is_supported:
        raise usage_error(
            message=f"connector {host.connector} is not supported; rigops uses ssh or @local",
            host=host.name,
        )


def chosen_host(host: InventoryHost, inventory: Inventory) -> Chosen:
    return Chosen(
        host.name,
        Target.from_host_data(host.name, host.data),
        host.spec,
        find_neighbors(inventory, host.name),
        inventory.digest,
    )


def find_neighbors(inventory: Inventory | None, name: str) -> tuple[Neighbor, ...]:
    """Other hosts of the inventory on a circuit of this host."""
    host = inventory.host(name) if inventory else None
    circuits = host.spec.circuits or () if host else ()
    if inventory is None or not any(circuit.name for circuit in circuits):
        return ()
    from rigops.power import sharing

    return sharing(name, {one.name: one.spec for one in inventory.hosts})
