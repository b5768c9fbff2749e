"""The ssh_config(5) options of each host of an inventory. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.errors import Problem, UsageError
from rigops.inventory.spec.faults import shown

if TYPE_CHECKING:
    from rigops.inventory import Inventory, InventoryHost

_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_WORD = re.compile(r"[^\s\"'\\#-][^\s\"'\\#]*")
_PATH = re.compile(r"[^\x00-\x1f\x7f\"-][^\x00-\x1f\x7f\"]*")
_MOST_PORT = 65535

# pyinfra key, ssh_config(5) option, accepted values.
_OPTIONS = (
    ("ssh_config_file", "Include", "a path"),
    ("ssh_hostname", "HostName", "a host name or address"),
    ("ssh_user", "User", "a user name"),
    ("ssh_port", "Port", f"a whole number from 1 to {_MOST_PORT}"),
    ("ssh_key", "IdentityFile", "the path of a private key"),
    ("ssh_known_hosts_file", "UserKnownHostsFile", "a path"),
    ("ssh_forward_agent", "ForwardAgent", "True or False"),
)


@dataclass(frozen=True)
class Access:
    """One host in terms of ssh_config(5)."""

    alias: str
    options: tuple[tuple[str, str], ...]

    def option(self, name: str) -> str | None:
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Unreached:
    """A host that is not reached over ssh, and why."""

    name: str
    why: str


def accesses(inventory: Inventory) -> tuple[list[Access], list[Unreached]]:
    reached: list[Access] = []
    unreached: list[Unreached] = []
    problems: list[Problem] = []
    for host in inventory.hosts:
        if host.connector == "ssh":
            problems += _problems(host, str(inventory.path))
            reached.append(Access(host.name.removeprefix("@ssh/"), _options(host)))
        elif host.connector == "local":
            unreached.append(Unreached(host.name, "this machine"))
        else:
            unreached.append(Unreached(host.name, f"connector {host.connector}, not ssh"))
    if problems:
        raise UsageError(problems)
    return reached, unreached


def _options(host: InventoryHost) -> tuple[tuple[str, str], ...]:
    data = host.data
    return tuple(
        (option, "yes" if value is True else str(value))
        for key, option, _ in _OPTIONS
        if (value := data.get(key)) is not None and value is not False
    )


def _problems(host: InventoryHost, file: str) -> list[Problem]:
    found = [
        Problem(
            message="not a value that ssh accepts",
            accepted=accepted,
            file=host.placed[key].file or file,
            line=host.placed[key].line,
            host=host.name,
            key=key,
            value=shown(value),
        )
        for key, _, accepted in _OPTIONS
        if (value := host.data.get(key)) is not None and not _fits(key, value)
    ]
    if not _ALIAS.fullmatch(host.name.removeprefix("@ssh/")):
        found.append(
            Problem(
                message="not a host name that ssh accepts",
                accepted="letters, digits and _ . : - without a space",
                file=file,
                host=host.name,
                fix='use a plain name and ssh_hostname: ("rig", {"ssh_hostname": "…"})',
            )
        )
    return found


def _fits(key: str, value: object) -> bool:
    """A line break would inject options into the file; a leading dash, into a command."""
    if key == "ssh_port":
        text = str(value) if not isinstance(value, bool) else ""
        return text.isdecimal() and 0 < int(text) <= _MOST_PORT
    if key == "ssh_forward_agent":
        return isinstance(value, bool)
    pattern = _WORD if key in {"ssh_hostname", "ssh_user"} else _PATH
    return isinstance(value, str) and bool(pattern.fullmatch(value))
