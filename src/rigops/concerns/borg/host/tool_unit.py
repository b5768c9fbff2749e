"""The unit that runs the backups of another tool: what it starts, and with which settings."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from rigops.concerns.snapshots.host.btrfs import HostError, last_line

WATCHED_FILE = "/etc/rigops/borg_watched"
BORGMATIC = "borgmatic"
RESTIC = "restic"

_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
_SERVICE = "org.freedesktop.systemd1.Service"
_ROOT_USERS = ("", "root", "0")
_HINTS = {
    "borg": "`borg list REPOSITORY`, then `borg extract`",
    "kopia": "`kopia snapshot list --all`, then `kopia restore`",
    "duplicity": "`duplicity collection-status`, then `duplicity restore`",
}


class OnlyAgeKnownError(HostError):
    """Of a backup that rigops can neither list nor restore; `tool`: what its unit starts."""

    def __init__(self, tool: str, message: str, fix: str) -> None:
        super().__init__(message, fix)
        self.tool = tool


class ToolUnit(NamedTuple):
    """`words`: from the program of the tool on. `settings`: of the service, as systemd has it."""

    name: str
    service: str
    tool: str
    words: tuple[str, ...]
    settings: dict[str, Any]


def watched_unit(path: str = WATCHED_FILE) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    name = next((line[5:] for line in lines if line.startswith("unit ")), "")
    if not name:
        raise HostError("no backup of another tool is declared", "run rigops apply")
    return name


def demand_tool_unit() -> ToolUnit:
    name = watched_unit()
    service = f"{name.rpartition('.')[0]}.service"
    return read_tool_unit(name, service, ask_systemd(service))


def read_tool_unit(name: str, service: str, settings: dict[str, Any]) -> ToolUnit:
    """Pure. A unit of which only the age is known is refused with what to do instead."""
    commands = [(str(one[0]), *map(str, one[1][1:])) for one in settings.get("ExecStart") or ()]
    if not commands:
        raise HostError(f"{service} is not on this host", "declare the unit that backs up")
    found = [one for one in map(_of_tool, commands) if one]
    if not found:
        program = os.path.basename(commands[0][0])  # noqa: PTH119
        hint = _HINTS.get(program, f"what `systemctl cat {service}` shows")
        raise OnlyAgeKnownError(
            program,
            f"{name} starts {program}, and rigops lists, restores and tries backups of borgmatic "
            "and restic: of others only the age is known",
            f"use the tool itself on the host: {hint}",
        )
    words = next((one for one in found if "backup" in one), found[0])
    user = str(settings.get("User") or "")
    if user not in _ROOT_USERS or settings.get("DynamicUser"):
        raise OnlyAgeKnownError(
            os.path.basename(words[0]),  # noqa: PTH119
            f"{name} runs as {user or 'a user of its own'}, and only root gives files back to "
            "their owners: only the age is known",
            f"use {words[0]} itself on the host as that user",
        )
    return ToolUnit(name, service, os.path.basename(words[0]), words, settings)  # noqa: PTH119


def _of_tool(command: tuple[str, ...]) -> tuple[str, ...]:
    """What follows systemd-inhibit, nice and the like; empty for another tool."""
    for number, word in enumerate(command):
        if os.path.basename(word) in (BORGMATIC, RESTIC):  # noqa: PTH119
            return command[number:]
    return ()


def ask_systemd(service: str) -> dict[str, Any]:
    """All settings of a service, each as it is: a list of words is no text to be split again."""
    bus, manager = _SYSTEMD
    (path,) = _call(bus, manager, f"{bus}.Manager", "LoadUnit", "s", service)
    (found,) = _call(bus, path, "org.freedesktop.DBus.Properties", "GetAll", "s", _SERVICE)
    return {name: one["data"] for name, one in found.items()}


def _call(*words: str) -> list[Any]:
    done = subprocess.run(
        ["busctl", "--json=short", "call", *words],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        found: list[Any] = json.loads(done.stdout)["data"]
    except (ValueError, KeyError, TypeError):
        why = last_line(done.stderr.decode(errors="replace"))
        raise HostError(f"systemd does not answer: {why}", "see `systemctl status dbus`") from None
    return found
