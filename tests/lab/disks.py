"""Disks of a rig beside its root: btrfs file systems on loop devices."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

_SIZE = 512 << 20
_START = 1 << 20  # as in a partitioned disk; loop devices show no partition nodes everywhere


def make(host: Path, count: int) -> list[Path]:
    """Those of a host that is installed again are there already, with all that is on them."""
    return [_make(host / f"disk{number}.img", f"data{number}") for number in range(count)]


def _make(image: Path, label: str) -> Path:
    if image.exists():
        return Path(next(iter(_devices(image)), "") or _attach(image))
    with image.open("wb") as file:
        file.truncate(_START + _SIZE)
    device = _attach(image)
    _run("mkfs.btrfs", "--quiet", "--force", "--label", label, device)
    return Path(device)


def _attach(image: Path) -> str:
    return _run("losetup", "--find", "--show", "--offset", str(_START), str(image)).strip()


def move(old: Path, new: Path) -> None:
    """To another host, in the place of its own; neither of the two runs."""
    free(old)
    free(new)
    for image in sorted(old.glob("disk*.img")):
        image.replace(new / image.name)


def grow(host: Path, number: int) -> None:
    """To twice its size; who mounts it grows the file system."""
    image = host / f"disk{number}.img"
    with image.open("r+b") as file:
        file.truncate(_START + 2 * _SIZE)
    for device in _devices(image):
        _run("losetup", "--set-capacity", device)


def free(host: Path) -> None:
    """By the file behind each device, so that no record has to be right."""
    for image in host.glob("disk*.img"):
        for device in _devices(image):
            _run("losetup", "--detach", device)


def _devices(image: Path) -> list[str]:
    listed = _run("losetup", "--json", "--output", "NAME", "--associated", str(image))
    return [one["name"] for one in json.loads(listed or '{"loopdevices": []}')["loopdevices"]]


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True
    )
    return done.stdout
