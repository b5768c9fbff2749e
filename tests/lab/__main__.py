"""Simulated rigs on really booted hosts; see tests/lab/README.md."""

from __future__ import annotations

import argparse
import json
import sys

from tests.lab import clients, hosts, rigs, runs, settings
from tests.lab.errors import LabError
from tests.lab.image import tell
from tests.lab.vm import cli as vm


def main() -> int:
    arguments = _arguments()
    try:
        return _COMMANDS[arguments.command](arguments)
    except LabError as error:
        tell(str(error))
    except PermissionError as error:
        tell(f"{error}: the lab takes root")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser(
        "up",
        help="boot hosts",
        epilog=f"Rigs: {', '.join(rigs.names())}. Keys: {', '.join(settings.KEYS)}.",
    )
    up.add_argument("words", nargs="+", metavar="RIG[=NAME] | KEY=VALUE")
    commands.add_parser("list").add_argument("--json", action="store_true")
    ssh = commands.add_parser("ssh", help="log in, or run a command")
    ssh.add_argument("name", metavar="NAME")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    commands.add_parser("ssh-config", help="path of a configuration with every running host")
    change = commands.add_parser("set", help="change a rig while it runs")
    change.add_argument("name", metavar="NAME")
    change.add_argument("words", nargs="+", metavar="KEY=VALUE")
    down = commands.add_parser("down", help="end hosts: these, or all")
    down.add_argument("names", nargs="*", metavar="NAME")
    vm.add(commands.add_parser("vm", help="whole machines under QEMU"))
    return parser.parse_args()


def _up(arguments: argparse.Namespace) -> int:
    for host in hosts.up(arguments.words, keep=True):
        sys.stdout.write(f"{host.name} {host.address}:{host.port}\n")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    records = runs.records()
    if arguments.json:
        shown = [
            {
                "name": record.name,
                "rig": record.rig,
                "state": _state(record),
                "address": record.address,
                "port": clients.port(record),
                "settings": record.settings,
            }
            for record in records
        ]
        sys.stdout.write(json.dumps(shown, indent=1) + "\n")
        return 0
    for record in records:
        where = f"{record.address}:{clients.port(record)}"
        words = " ".join(f"{key}={value}" for key, value in record.settings.items())
        line = f"{record.name:<24} {record.rig:<20} {_state(record):<8} {where:<18} {words}"
        sys.stdout.write(line.rstrip() + "\n")
    return 0


def _state(record: runs.Record) -> str:
    if record.leftover:
        return "dead"
    return "running" if record.ready else "starting"


def _ssh(arguments: argparse.Namespace) -> int:
    user, _, name = arguments.name.rpartition("@")
    return hosts.Host(name).log_in(user or "root", arguments.words)


def _ssh_config(_arguments: argparse.Namespace) -> int:
    if not clients.config().exists():
        raise LabError("no host is running: python -m tests.lab up RIG")
    sys.stdout.write(f"{clients.config()}\n")
    return 0


def _set(arguments: argparse.Namespace) -> int:
    hosts.change(arguments.name, arguments.words)
    return 0


def _down(arguments: argparse.Namespace) -> int:
    hosts.down(arguments.names)
    return 0


_COMMANDS = {
    "up": _up,
    "list": _list,
    "ssh": _ssh,
    "ssh-config": _ssh_config,
    "set": _set,
    "down": _down,
    "vm": vm.run,
}

if __name__ == "__main__":
    sys.exit(main())
