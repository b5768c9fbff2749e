"""systemd user units that mount the home of each host with sshfs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.rendering import render

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.inventory.access import Access

MARKER = "# Made by `rigops ssh-config --sshfs`; made anew, never edited."

_OUTSIDE_UNIT_NAMES = re.compile(r"[^A-Za-z0-9:_.-]")
_SSHFS_OPTIONS = {"IdentityFile", "UserKnownHostsFile", "ForwardAgent", "User", "Port"}


@dataclass(frozen=True)
class MountUnit:
    name: str
    host: str
    mount_point: Path
    text: str


def mount_unit(access: Access, folder: Path) -> MountUnit:
    mount_point = folder / access.alias
    config = access.option("Include")
    options = [f"{name}={value}" for name, value in access.options if name in _SSHFS_OPTIONS]
    text = render(
        "sshfs.service.j2",
        marker=MARKER,
        description=_specifiers(f"The files of {access.alias}, in {mount_point}"),
        mount_point=_word(str(mount_point)),
        options=[_word(option.replace("\\", r"\\").replace(",", r"\,")) for option in options]
        + ([_word(f"ssh_command=ssh -F {config}")] if config else []),
        source=_word(f"{_address(access)}:"),
    )
    name = _OUTSIDE_UNIT_NAMES.sub(lambda found: f"\\x{ord(found[0]):02x}", access.alias)
    return MountUnit(f"rigops-sshfs-{name}.service", access.alias, mount_point, text)


def _address(access: Access) -> str:
    hostname = access.option("HostName") or access.alias
    return f"[{hostname}]" if ":" in hostname else hostname


def _word(text: str) -> str:
    """One word of a command in a unit file, quoted."""
    for special, written in (("\\", "\\\\"), ('"', '\\"'), ("$", "$$")):
        text = text.replace(special, written)
    return f'"{_specifiers(text)}"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")
