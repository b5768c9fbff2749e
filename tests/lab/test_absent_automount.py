"""Disks that are mounted when they are used, and are not there: the units start, and name them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import disks, hosts, machine
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "automount"
LIVE: Final = "/data/home"
REPOSITORY: Final = "/mnt/usb/borg"
UNITS: Final = ("rigops-borg", "rigops-borg-drill", "rigops-snapshots", "rigops-scrub")
ABSENT: Final = """
umount {where}
cat >/run/systemd/system/{unit}.mount <<END
[Mount]
What=/dev/disk/by-uuid/00000000-0000-4000-8000-000000000000
Where={where}
Type=btrfs
END
printf '[Automount]\\nWhere={where}\\n' >/run/systemd/system/{unit}.automount
systemctl daemon-reload; systemctl start {unit}.automount
! ls {where}
"""
BACK: Final = """
systemctl stop {unit}.automount
rm /run/systemd/system/{unit}.*; systemctl daemon-reload; mount {device} {where}
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        # The manager of a container looks for it once.
        node = Path(f"/proc/{machine.leader(host.record)}/root/dev/autofs")
        os.mknod(node, stat.S_IFCHR | 0o600, Path("/dev/autofs").stat().st_rdev)
        disks.grow(host.record.folder, 1)  # borg wants half a gigabyte to spare
        rig = Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)
        (rig.laptop.folder / "passphrase").write_text("secret-of-the-lab\n")
        rig.does(
            "systemctl daemon-reexec && mkdir -p /data /mnt/usb && mount /dev/sda /data && "
            "mkfs.ext4 -q -F /dev/sdb && mount /dev/sdb /mnt/usb && "
            f"btrfs -q subvolume create {LIVE} && echo one >{LIVE}/thesis"
        )
        borg = {"repository": REPOSITORY, "paths": [LIVE], "keep": "7d"}
        rig.apply(
            borg={**borg, "passphrase_command": f"cat {rig.laptop.folder}/passphrase"},
            snapshots={"subvolumes": [LIVE], "keep": "7d"},
        )
        yield rig


def start(rig: Tended, unit: str) -> tuple[int, str]:
    """Its exit status, and what it says in this run."""
    rig.does("journalctl --rotate && journalctl --vacuum-time=1s >/dev/null 2>&1; sync")
    rig.host.run(f"systemctl start {unit}")
    code = rig.does(f"systemctl show -p ExecMainStatus --value {unit}")
    return int(code), rig.does(f"journalctl --sync; journalctl -u {unit} -o cat")


def test_a_repository_that_is_not_there_is_named_by_the_units(rig: Tended) -> None:
    rig.does(ABSENT.format(unit="mnt-usb", where="/mnt/usb"))

    ran = {unit: start(rig, unit) for unit in UNITS}
    state = json.loads(rig.does("cat /var/lib/rigops/borg.json"))["repository"]
    rig.does(BACK.format(unit="mnt-usb", where="/mnt/usb", device="/dev/sdb"))

    assert {unit: code for unit, (code, _) in ran.items()} == dict.fromkeys(UNITS, 0), ran
    for unit in ("rigops-borg", "rigops-borg-drill"):
        assert f"{REPOSITORY} is absent (last seen: 2" in ran[unit][1]
    assert (state["state"], state["location"]) == ("absent", REPOSITORY)
    assert {unit: start(rig, unit)[0] for unit in UNITS} == dict.fromkeys(UNITS, 0)


def test_data_that_are_not_there_are_named_by_the_units(rig: Tended) -> None:
    rig.does(ABSENT.format(unit="data", where="/data"))

    ran = {unit: start(rig, unit) for unit in UNITS}
    rig.does(BACK.format(unit="data", where="/data", device="/dev/sda"))

    for unit, (code, text) in ran.items():
        assert code == 1, unit
        assert f"{LIVE} does not exist. fix: mount it" in text, text
    assert {unit: start(rig, unit)[0] for unit in UNITS} == dict.fromkeys(UNITS, 0)
