"""A disk that the reinstall left alone is mounted again where it was, now and at every boot."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.reprovision.mounts import LOOK, MOUNT
from tests.lab import disks, namespace
from tests.lab.requirements import lacks
from tests.shards import LAB_REPROVISION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.shard(LAB_REPROVISION),
    pytest.mark.skipif(lacks() is not None, reason=f"lab tier: {lacks()}"),
]


@pytest.fixture
def uuid(tmp_path: Path) -> Iterator[str]:
    (device,) = disks.make(tmp_path, 1)
    try:
        words = ["blkid", "-s", "UUID", "-o", "value", str(device)]
        yield subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    finally:
        disks.free(tmp_path)


def in_a_system_of_its_own(folder: Path, *steps: str) -> list[str]:
    """Lines that shell commands print, with mounts and an /etc that nobody else sees."""
    etc = f"lowerdir=/etc,upperdir={folder}/etc/upper,workdir={folder}/etc/work"
    begin = [
        f"mkdir {folder}/etc",
        f"mount -t tmpfs rigops-lab {folder}/etc",
        f"mkdir {folder}/etc/upper {folder}/etc/work",
        f"mount -t overlay rigops-lab -o {etc} /etc",
        "printf '# mine, without an end' >/etc/fstab",
    ]
    done = subprocess.run(
        namespace.enter([*begin, *steps]), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def sh(script: str, *words: str) -> str:
    return shlex.join(["sh", "-c", script, "rigops", *words])


def test_it_is_mounted_and_written_into_fstab_once(tmp_path: Path, uuid: str) -> None:
    at = f"{tmp_path}/the models"
    look = sh(LOOK, uuid, at, "0123-absent", "/nowhere")
    mount = sh(MOUNT, uuid, at, "btrfs", "rw,noatime")

    said = in_a_system_of_its_own(
        tmp_path, look, mount, look, f"umount {shlex.quote(at)}", mount, "cat /etc/fstab"
    )

    place = at.replace(" ", "\\040")
    assert said == [
        "free",
        "absent",
        "mounted",
        "absent",
        "# mine, without an end",
        f"UUID={uuid} {place} btrfs rw,noatime,nofail 0 0 # by rigops reprovision",
    ]
