"""The hosts of a command, and which host keys it trusts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rigops.cli.options import default_inventory, read_inventory, words
from rigops.cli.output import warn
from rigops.errors import Problem, UsageError
from rigops.transport import LOCAL, HostKeyPolicy, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rigops.inventory import Inventory
    from rigops.inventory.spec import RigSpec
    from rigops.transport import UnknownKey

Command = TypeVar("Command", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Chosen:
    """A host to reach; `spec` is None where no inventory declares anything for it."""

    name: str
    target: Target
    spec: RigSpec | None


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
    if not sys.stdin.isatty():
        raise UsageError(
            Problem(
                message="no terminal to type a password on",
                key="--ask-sudo-password",
                fix="log in as root, or allow sudo without a password on the host",
            )
        )
    password: str = click.prompt("sudo password", hide_input=True, err=True)
    return password


def choose_hosts(
    named: Sequence[str], inventory_path: Path | None, *, without_words: str
) -> tuple[Chosen, ...]:
    """Hosts by inventory name, ssh alias or user@host:port.

    Without names: every host of an inventory given by -i. Without -i, `without_words` decides:
    "local" is this machine, "inventory" every host of the default inventory.
    """
    inventory = _inventory(inventory_path, required=not named and without_words == "inventory")
    if named:
        return tuple(_named(word, inventory) for word in dict.fromkeys(named))
    if inventory is not None and (inventory_path is not None or without_words == "inventory"):
        return tuple(_of_inventory(inventory))
    local = inventory.host("@local") if inventory else None
    return (Chosen("@local", LOCAL, local.spec if local else None),)


def host_key_policy(accepted_keys: Iterable[str]) -> HostKeyPolicy:
    """Ask about an unknown key on a terminal; without one, refuse it."""
    keys = frozenset(accepted_keys)
    for key in keys:
        if not key.startswith("SHA256:"):
            raise UsageError(
                Problem(
                    message="not a host key fingerprint",
                    key="--accept-host-key",
                    value=key,
                    accepted="SHA256:…, as ssh-keygen -l prints it",
                )
            )
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    return HostKeyPolicy(accept=keys, ask=_ask if asks else None)


def _ask(key: UnknownKey) -> bool:
    click.echo(f"Unknown host {key.host}. Its {key.key_type} key:\n  {key.fingerprint}", err=True)
    return click.confirm("Trust this key and save it?", err=True)


def _inventory(path: Path | None, *, required: bool) -> Inventory | None:
    if path is None and not required and not default_inventory().exists():
        return None
    return read_inventory(path)


def _of_inventory(inventory: Inventory) -> list[Chosen]:
    return [
        Chosen(host.name, Target.from_host_data(host.name, host.data), host.spec)
        for host in inventory.hosts
        if host.connector in {"ssh", "local"}
    ]


def _named(word: str, inventory: Inventory | None) -> Chosen:
    host = inventory.host(word) if inventory else None
    if host is None:
        hint = inventory.nearest(word) if inventory else ""
        if hint:
            warn([f"{word} is not in the inventory; using it as an ssh host; {hint}"])
        return Chosen(word, Target.parse(word), None)
    if host.connector not in {"ssh", "local"}:
        raise UsageError(
            Problem(
                message=f"connector {host.connector} is not supported; rigops uses ssh or @local",
                host=word,
            )
        )
    return Chosen(word, Target.from_host_data(host.name, host.data), host.spec)
