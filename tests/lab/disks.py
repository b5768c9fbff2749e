"""Disks of a rig beside its root: btrfs file systems on loop devices."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

_SIZE = 512 << 20
_START = 1 << 20  # as in a partitioned disk; loop devices show no partition nodes everywhere


def make(host: Path, count: int) -> list[Path]:
    return [_make(host / f"disk{number}.img", f"data{number}") for number in range(count)]


def _make(image: Path, label: str) -> Path:
    with image.open("wb") as file:
        file.truncate(_START + _SIZE)
    device = _run("losetup", "--find", "--show", "--offset", str(_START), str(image)).strip()
    _run("mkfs.btrfs", "--quiet", "--force", "--label", label, device)
    return Path(device)


def free(host: Path) -> None:
    """By the file behind each device, so that no record has to be right."""
    for image in host.glob("disk*.img"):
        listed = _run("losetup", "--json", "--output", "NAME", "--associated", str(image))
        for device in json.loads(listed or '{"loopdevices": []}')["loopdevices"]:
            _run("losetup", "--detach", device["name"])


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True
    )
    return done.stdout
