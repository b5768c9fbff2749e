"""The ssh_config(5) options of each host of an inventory, and units that mount its home. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError
from rigops.inventory import Inventory, InventoryHost
from rigops.inventory.spec.faults import shown

_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*(?:%[A-Za-z0-9_.-]+)?")  # a zone id last
_WORD = re.compile(r"[^\s\"'\\#-][^\s\"'\\#]*")
_PATH = re.compile(r"[^\x00-\x1f\x7f\"-][^\x00-\x1f\x7f\"]*")
_MOST_PORT = 65535
_DIGITS = re.compile(r"[0-9]{1,5}")
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_~-]+")
_WITH_TOKENS = {"HostName", "IdentityFile", "UserKnownHostsFile"}
_OF_SEVERAL_WORDS = {
    "GlobalKnownHostsFile",
    "KnownHostsCommand",
    "ProxyCommand",
    "UserKnownHostsFile",
}
_OUTSIDE_UNIT_NAMES = re.compile(r"[^A-Za-z0-9:_.-]")
_SSHFS_OPTIONS = {"IdentityFile", "UserKnownHostsFile", "ForwardAgent", "User", "Port"}

UNIT_MARKER = "# Made by `rigops ssh-config --sshfs`"

# pyinfra key, ssh_config(5) option, accepted values. OpenSSH takes an option's first value: the
# inventory's goes before that of the file that it includes, as it does for rigops.
_OPTIONS = (
    ("ssh_hostname", "HostName", "a host name or address"),
    ("ssh_user", "User", "a user name"),
    ("ssh_port", "Port", f"a whole number from 1 to {_MOST_PORT}"),
    ("ssh_key", "IdentityFile", "the path of a private key"),
    ("ssh_known_hosts_file", "UserKnownHostsFile", "a path"),
    ("ssh_forward_agent", "ForwardAgent", "True or False"),
    ("ssh_config_file", "Include", "a path"),
)


@dataclass(frozen=True)
class Access:
    """One host in terms of ssh_config(5).

    `configured`: of the section of its `HostName`, which OpenSSH finds by that name alone.
    """

    alias: str
    options: dict[str, str]
    configured: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def lines(self) -> Iterator[str]:
        """The options as a file has them: the first value of an option counts."""
        declared = {key: value for key, value in self.options.items() if key != "Include"}
        for option, value in declared.items():
            if option != "HostName" or option not in self.configured:
                yield f"{option} {_written(option, value)}"
        for option, values in self.configured.items():
            if option == "HostName" or option not in declared:
                yield from (f"{option} {_as_configured(option, value)}" for value in values)
        if "Include" in self.options:
            yield f"Include {_written('Include', self.options['Include'])}"


def _written(option: str, value: str) -> str:
    """No percent sign starts a token."""
    return _quoted(value.replace("%", "%%") if option in _WITH_TOKENS else value)


def _as_configured(option: str, value: str) -> str:
    return value if option in _OF_SEVERAL_WORDS else _quoted(value)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else '"' + value.replace("\\", "\\\\") + '"'


def accesses(inventory: Inventory) -> tuple[list[Access], dict[str, str]]:
    """And why other hosts are not reached over ssh, by name."""
    reached: list[Access] = []
    unreached: dict[str, str] = {}
    problems: list[Problem] = []
    for host in inventory.hosts:
        if host.connector == "ssh":
            problems += _problems(host, str(inventory.path))
            options = {
                option: "yes" if value is True else str(value)
                for key, option, _ in _OPTIONS
                if (value := host.data.get(key)) is not None and value is not False
            }
            reached.append(Access(host.name.removeprefix("@ssh/"), options))
        elif host.connector == "local":
            unreached[host.name] = "this machine"
        else:
            unreached[host.name] = f"connector {host.connector}, not ssh"
    if problems:
        raise UsageError(problems)
    return reached, unreached


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
        number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
        return type(number) is int and 0 < number <= _MOST_PORT
    if key == "ssh_forward_agent":
        return isinstance(value, bool)
    pattern = _WORD if key in {"ssh_hostname", "ssh_user"} else _PATH
    return isinstance(value, str) and bool(pattern.fullmatch(value))


@dataclass(frozen=True)
class MountUnit:
    """A systemd user unit."""

    name: str
    host: str
    mount_point: Path
    text: str


def mount_unit(access: Access, folder: Path) -> MountUnit:
    from rigops.rendering import render  # noqa: PLC0415 - slow to import

    mount_point = folder / access.alias
    hostname = access.options.get("HostName", access.alias)
    address = f"[{hostname}]" if ":" in hostname else hostname
    config = access.options.get("Include")
    options = [f"{k}={_written(k, v)}" for k, v in access.options.items() if k in _SSHFS_OPTIONS]
    text = render(
        "sshfs.service.j2",
        marker=UNIT_MARKER,
        description=f"The files of {access.alias}, in {mount_point}".replace("%", "%%"),
        mount_point=_unit_word(str(mount_point)),
        options=[_unit_word(option.replace("\\", r"\\").replace(",", r"\,")) for option in options]
        + ([_unit_word(f"ssh_command=ssh -F {config}")] if config else []),
        source=_unit_word(f"{address}:"),
    )
    name = _OUTSIDE_UNIT_NAMES.sub(lambda found: f"\\x{ord(found[0]):02x}", access.alias)
    return MountUnit(f"rigops-sshfs-{name}.service", access.alias, mount_point, text)


def _unit_word(text: str) -> str:
    """One word of a command in a unit file, quoted."""
    for special, written in (("\\", "\\\\"), ('"', '\\"'), ("$", "$$"), ("%", "%%")):
        text = text.replace(special, written)
    return f'"{text}"'
