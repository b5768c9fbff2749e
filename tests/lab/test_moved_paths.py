"""Declared paths on other file systems than at their last backups; what a restore makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_host import LIVE, BorgHost
from tests.lab.snapshot_host import FIRST, PLACES, SnapshotHost
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
OTHER: Final = "/opt/other"
ELSEWHERE: Final = "is on another file system than at the last backup"
EXT4: Final = f"mkfs.ext4 -q -F {FIRST} && mount {FIRST} /data"


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return module_lab.one(RIG)


@pytest.fixture
def borg(host: Host) -> BorgHost:
    found = BorgHost(host)
    found.install()
    return found


@pytest.fixture
def snapshots(host: Host) -> SnapshotHost:
    found = SnapshotHost(host)
    found.install()
    return found


def test_a_device_that_a_boot_renamed_is_the_same_file_system(snapshots: SnapshotHost) -> None:
    on = snapshots
    on.start_anew()
    assert on.run("backup").code == 0
    on.does(f"umount /data; cp -a {FIRST} /dev/renamed; mount /dev/renamed /data")

    ran = on.run("backup")
    noted = json.loads(on.does(f"cat {PLACES}"))["paths"][LIVE]
    on.does(f"umount /data; rm /dev/renamed; mount {FIRST} /data")

    assert ran.code == 0, ran.text
    assert (noted["source"], noted["uuid"]) == ("/dev/renamed", on.uuid(FIRST))


def test_an_empty_mount_point_is_neither_backed_up_nor_taken_for_the_data(borg: BorgHost) -> None:
    on = borg
    on.does(f"umount /data 2>/dev/null; mkdir -p {LIVE} {OTHER}; echo x >{OTHER}/x")
    on.begin(paths=[LIVE, OTHER])
    on.does(f"umount /data && {EXT4} && mkdir {LIVE} && echo data >{LIVE}/file")
    assert ELSEWHERE in on.run("backup").text
    assert on.run("backup", "--moved").code == 0
    on.does(f"umount /data && echo wrong >{LIVE}/wrong")

    ran = on.run("backup")
    planned, accepted = on.run("backup", "--dry-run"), on.run("backup", "--dry-run", "--moved")
    drilled = on.run("drill")
    mistaken = on.run("restore", "--path", LIVE, "--in-place")
    beside = on.restore(f"{LIVE}/file", "--to", "/root/found")

    assert (ran.code, ran.names("pruned"), mistaken.code) == (1, [], 1)
    assert f"{LIVE} {ELSEWHERE} (was ext4 UUID " in ran.text
    made = [*ran.names("created"), *planned.names("created"), drilled.result["drill"]["archive"]]
    assert [name for name in made if not name.endswith(".partial")] == []
    assert "no file system is mounted there now" in mistaken.text
    assert [name for name in accepted.names("created") if name.endswith(".partial")] == []
    assert on.does(f"cat {LIVE}/wrong {beside['restored_to']}") == "wrong\ndata"
    assert "is in no archive" in on.run("restore", "--path", f"{LIVE}/wrong").text

    on.does(f"rm -r /root/found {LIVE}/wrong && {EXT4}")
    assert f"{LIVE} does not exist" in on.run("backup").text
    on.restore(LIVE, "--in-place")
    assert on.does(f"cat {LIVE}/file") == "data"
    again = on.run("backup")
    assert again.code == 0, again.text


@pytest.mark.parametrize("now", ["", f"mkdir {LIVE}; echo newer >{LIVE}/newer"])
def test_what_was_a_subvolume_is_one_again_from_an_archive_too(
    borg: BorgHost, snapshots: SnapshotHost, now: str
) -> None:
    on = borg
    on.begin()
    snapshots.declare()
    assert snapshots.run("backup").code == 0
    was = on.look(LIVE)
    on.does(f"btrfs -q subvolume delete {LIVE}; {now}")

    done = on.restore(LIVE, "--in-place")
    beside = on.restore(LIVE)

    assert on.look(LIVE) == was
    assert on.does(f"stat -c %i {LIVE}") == "256"
    assert on.does(f"stat -c %i {beside['restored_to']}") != "256"
    if now:
        assert on.does(f"cat {done['aside']}/newer") == "newer"
    assert below(on.look(beside["restored_to"])) == below(was)
    assert (snapshots.run("backup").code, on.run("backup").code) == (0, 0)
    on.does(f"rm -r {beside['restored_to']} {done['aside'] or ''}; rm /etc/rigops/snapshots.json")
