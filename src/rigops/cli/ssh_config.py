"""The command that prints an OpenSSH configuration."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Final

import click

from rigops import atomic_file
from rigops.cli.options import common, inventory_option, json_option, read_inventory
from rigops.cli.output import print_json, warn
from rigops.errors import usage_error
from rigops.inventory.access import UNIT_MARKER, Access, MountUnit, accesses, mount_unit
from rigops.report.terminal import print_lines, print_text
from rigops.transport.clock import Clock
from rigops.transport.errors import clean
from rigops.transport.route import options_of_alias
from rigops.transport.target import Target

_CONFIGURATION_S: Final = 30.0


@click.command("ssh-config")
@inventory_option
@click.option(
    "--sshfs",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write systemd user units that mount each home below DIR.",
)
@json_option
@common
def command(inventory_path: Path | None, folder: Path | None, as_json: bool) -> None:
    """Print an OpenSSH configuration for the inventory.

    With it ssh, scp, rsync and VS Code Remote accept the names of the inventory. What your ssh
    configuration has for the name in `ssh_hostname`, such as a port or a key, is in it: rigops uses
    that too. Files are written only with --sshfs.

    \b
    Examples:
      rigops ssh-config > ~/.ssh/rigs        then put `Include rigs` on top of ~/.ssh/config
      rigops ssh-config --sshfs ~/rigs       also mount each home as ~/rigs/NAME
    """
    inventory = read_inventory(inventory_path)
    found, unreached = accesses(inventory)
    hosts = [_with_configuration(host) for host in found]
    units = _units(hosts, folder)
    if as_json:
        print_json(
            {
                "schema": "rigops.ssh-config/1",
                "hosts": [_document(host, units) for host in hosts],
                "unreached": [{"host": name, "why": why} for name, why in unreached.items()],
            }
        )
    else:
        from rigops.rendering import render

        named = {clean(name): why for name, why in unreached.items()}
        path = clean(str(inventory.path))
        print_text(render("ssh_config.j2", inventory=path, hosts=hosts, unreached=named))
    _install(units)


def _with_configuration(host: Access) -> Access:
    """With what rigops finds by the name in `ssh_hostname`, and OpenSSH by the inventory's not."""
    hostname, port = (host.options.get(one) for one in ("HostName", "Port"))
    if hostname is None:
        return host
    target = Target(
        name=host.alias,
        hostname=hostname,
        port=int(port) if port else None,
        user=host.options.get("User"),
        config_file=host.options.get("Include"),
    )
    return replace(host, configured=options_of_alias(target, Clock(_CONFIGURATION_S)))


def _document(host: Access, units: list[MountUnit]) -> dict[str, object]:
    unit = next((unit for unit in units if unit.host == host.alias), None)
    return {
        "host": host.alias,
        "options": host.options,
        "configured": host.configured,
        "unit": unit and unit.name,
        "mount_point": str(unit.mount_point) if unit else None,
    }


def _units(hosts: list[Access], folder: Path | None) -> list[MountUnit]:
    if folder is None:
        return []
    if sys.platform != "linux":
        raise usage_error(
            message="--sshfs needs systemd, which this machine does not have",
            fix=f"mount by hand: sshfs NAME: {folder}/NAME",
        )
    whole = Path(os.path.abspath(folder.expanduser()))  # noqa: PTH100 - links are the user's choice
    return [mount_unit(host, whole) for host in hosts]


def _install(units: list[MountUnit]) -> None:
    if not units:
        return
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    folder = config / "systemd" / "user"
    foreign = [
        unit.name
        for unit in units
        if (folder / unit.name).exists()
        and not (folder / unit.name).read_text(errors="replace").startswith(UNIT_MARKER)
    ]
    if foreign:
        raise usage_error(
            message=f"{', '.join(foreign)} in {folder}: not written by rigops; not overwritten",
            fix="rename or remove it, then run this again",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for unit in units:
        atomic_file.replace(folder / unit.name, unit.text, 0o644)
        print_lines(f"wrote {folder / unit.name}", err=True)
    names = " ".join(f"'{unit.name}'" for unit in units)
    print_lines(
        "To mount at once and at every login:",
        f"  systemctl --user daemon-reload && systemctl --user enable --now {names}",
        err=True,
    )
    if which("sshfs") is None:
        warn(["sshfs is not installed on this machine; install it first"])
