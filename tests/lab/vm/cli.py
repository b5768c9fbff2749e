"""python -m tests.lab vm up|list|ssh|cut|down."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.vm import layouts, machines

if TYPE_CHECKING:
    from collections.abc import Callable

_KEYS = ("layout", "rtc", "memory")


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="vm_command", required=True)
    up = commands.add_parser(
        "up",
        help="boot a machine, or start it again after a cut",
        epilog=f"Keys: layout={'|'.join(layouts.NAMES)}, rtc=2031-01-01T00:00:00, memory=MIB.",
    )
    up.add_argument("name", metavar="NAME")
    up.add_argument("words", nargs="*", metavar="KEY=VALUE")
    commands.add_parser("list").add_argument("--json", action="store_true")
    ssh = commands.add_parser("ssh", help="log in, or run a command")
    ssh.add_argument("name", metavar="[USER@]NAME")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    cut = commands.add_parser("cut", help="a power cut: up starts it again with the same disk")
    cut.add_argument("name", metavar="NAME")
    down = commands.add_parser("down", help="end machines, and their disks: these, or all")
    down.add_argument("names", nargs="*", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    command: str = arguments.vm_command
    return _COMMANDS[command](arguments)


def _up(arguments: argparse.Namespace) -> int:
    given = dict(word.partition("=")[::2] for word in arguments.words)
    if unknown := set(given) - set(_KEYS):
        raise LabError(f"{min(unknown)}: the keys are {', '.join(_KEYS)}")
    memory = given.get("memory", "1024")
    if not memory.isdecimal():
        raise LabError(f"memory={memory}: it has to be a number of MiB")
    machine = machines.up(
        arguments.name,
        layout=given.get("layout", "ext4"),
        rtc=given.get("rtc", ""),
        memory=int(memory),
        keep=True,
    )
    sys.stdout.write(f"ssh -F {machine.access.config} {machine.name}\n")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    shown = [
        {
            "name": machine.name,
            "layout": machine.record.layout,
            "state": "on" if machine.is_on else "off",
            "port": machine.record.port,
            "ssh_config": str(machine.access.config),
        }
        for machine in machines.machines()
    ]
    if arguments.json:
        sys.stdout.write(json.dumps(shown, indent=1) + "\n")
        return 0
    for one in shown:
        sys.stdout.write("{name:<24} {layout:<6} {state:<4} {port} {ssh_config}\n".format(**one))
    return 0


def _ssh(arguments: argparse.Namespace) -> int:
    user, _, name = arguments.name.rpartition("@")
    return machines.Machine(name).log_in(user or "root", arguments.words)


def _cut(arguments: argparse.Namespace) -> int:
    machines.Machine(arguments.name).cut()
    return 0


def _down(arguments: argparse.Namespace) -> int:
    for name in arguments.names or machines.names():
        if name not in machines.names():
            raise LabError(f"there is no machine {name!r}")
        machines.Machine(name).down()
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": _up,
    "list": _list,
    "ssh": _ssh,
    "cut": _cut,
    "down": _down,
}
