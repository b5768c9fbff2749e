"""A host that is cut off anywhere in a run: nothing older is lost, and the next run recovers.

Points are the starts of programs on the host: taking, pruning, sending, pruning at the target, and
restoring from there.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.hosts import ssh_command
from tests.lab.points import Points
from tests.lab.snapshot_host import HERE, LIVE, PROGRAM, SECOND, SnapshotHost
from tests.lab.sshd import until
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

RIG: Final = "epyc-8x4090"
POINTS: Final = 12
RESTORE_POINTS: Final = 8
RESTORE: Final = ("restore", "--in-place", "--path", LIVE)
OLD: Final = tuple(f"202611{day:02}T060000Z-timer" for day in (1, 2))
FULL: Final = "cat /dev/zero >{folder}/fill 2>/dev/null; sync -f {folder}"


@dataclass(frozen=True)
class Interrupted:
    on: SnapshotHost
    programs: int  # of a run that nobody disturbs
    restore_programs: int


@pytest.fixture(scope="module")
def rig(module_lab: Lab) -> Interrupted:
    host = module_lab.one(RIG)
    on = SnapshotHost(host)
    on.install()
    prepare(on)
    points = Points(host)
    points.watch()
    assert on.run("backup").code == 0
    programs = points.count
    prepare_restore(on)
    points.watch()
    assert on.run(*RESTORE).code == 0
    return Interrupted(on, programs, points.count)


def prepare(on: SnapshotHost) -> None:
    """The next run takes, prunes both here and there, and sends."""
    on.start_anew(keep="1h 1d")
    on.run("backup")
    for name in OLD:
        on.does(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{name}")
    there = f"/there/rigops/{on.name}/data%2Fhome"
    on.does_there(
        f"for one in {' '.join(OLD)}; do btrfs -q send {HERE}/$one | btrfs -q receive {there}; done"
    )
    on.change(8)


def prepare_restore(on: SnapshotHost) -> None:
    """The next restore gets all of it from the other disk, and moves a nested subvolume."""
    on.start_anew()
    on.does(f"echo old >{LIVE}/small")
    assert on.run("backup").code == 0
    on.does(
        f"echo newer >{LIVE}/small; rm -r {LIVE}/sub; btrfs -q subvolume create {LIVE}/machines;"
        f" echo vm >{LIVE}/machines/disk; btrfs -q subvolume delete {HERE}/*Z-*"
    )


def cut_off(on: SnapshotHost, point: int, *words: str) -> None:
    Points(on.host).watch(point)
    begun = subprocess.Popen(
        [*ssh_command(), f"root@{on.host.name}", f"{PROGRAM} {' '.join(words)}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Points(on.host).wait()
    Points(on.host).cut()
    begun.wait(180)
    until(lambda: on.host.answers, "the host's next boot")
    on.does("mkdir -p /data; mountpoint -q /data || mount /dev/sda /data; blkid /dev/sda /dev/sdb")


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_a_host_that_is_cut_off_loses_nothing_older_and_the_next_run_recovers(
    rig: Interrupted, point: int
) -> None:
    on = rig.on
    prepare(on)
    before = {path: found for path, found in on.digests().items() if not path.endswith(OLD)}
    cut_off(on, max(1, rig.programs * point // POINTS), "backup")

    after = on.digests()
    assert {path: after.get(path) for path in before} == before
    ran = on.run("backup")
    assert ran.code == 0, ran.text + ran.stderr
    assert on.there()[-1] == on.here()[-1] == ran.names("created")[0]
    assert not set(OLD) & {*on.here(), *on.there()}
    final = on.digests()
    assert {path.rpartition("/")[2] for path in final} == {*on.here(), *on.there()}  # all whole


@pytest.mark.parametrize("point", range(1, RESTORE_POINTS + 1))
def test_a_host_that_is_cut_off_in_a_restore_has_the_old_or_the_new_and_the_next_run_recovers(
    rig: Interrupted, point: int
) -> None:
    on = rig.on
    prepare_restore(on)
    before = on.digests()
    cut_off(on, max(1, rig.restore_programs * point // RESTORE_POINTS), *RESTORE)

    after = on.digests()
    assert {path: after.get(path) for path in before} == before
    assert on.does(f"cat {LIVE}/small") in {"old", "newer"}
    ran = on.run(*RESTORE)
    assert ran.code == 0, ran.text + ran.stderr
    assert on.does(f"cat {LIVE}/small {LIVE}/machines/disk").split() == ["old", "vm"]
    assert "newer" in on.does(f"cat {HERE}/*-rollback/small")
    left = on.does("find /data -name '.rigops-restore-*'; ls /var/lib/rigops")
    assert left.split() == ["file_systems.json", "snapshots.json"]
    following = on.run("backup")
    assert following.code == 0, following.text
    assert all(one["parent"] for one in following.result["sent"])


@pytest.mark.parametrize("number", ["INT", "TERM", "HUP"])
def test_a_signal_ends_all_of_it_and_leaves_nothing_half_made(
    rig: Interrupted, number: str
) -> None:
    on = rig.on
    prepare(on)
    on.change(60)
    before = on.digests()
    # A receive that takes its time.
    on.does(
        "cat >/usr/local/sbin/btrfs <<'END'\n#!/bin/bash\n"
        'case "$*" in *receive*) exec /usr/bin/btrfs "$@" < <(head -c 6000000;'
        " while kill -0 $$ 2>/dev/null; do sleep 0.1; done) ;; esac\n"
        'exec /usr/bin/btrfs "$@"\nEND\nchmod 755 /usr/local/sbin/btrfs'
    )
    on.does(f"systemd-run -q --unit=backup -p KillMode=none {PROGRAM} backup")
    until(lambda: "receive" in on.does("ps -ef | grep [r]eceive || :"), "the receive")
    time.sleep(1)
    on.does(f"systemctl kill -s {number} --kill-whom=main backup")
    until(
        lambda: "active" not in on.host.run("systemctl is-active backup").stdout.split(), "its end"
    )
    code = on.does("systemctl show -p ExecMainStatus --value backup")
    on.does("systemctl reset-failed backup || :; rm /usr/local/sbin/btrfs")

    assert int(code) == 128 + {"INT": 2, "TERM": 15, "HUP": 1}[number]
    assert on.does("ps -ef | grep -E '[b]trfs (-q )?(send|receive)' || :") == ""
    assert {path: found for path, found in on.digests().items() if path in before} == {
        path: found for path, found in before.items() if not path.endswith(OLD) or "/there" in path
    }
    assert on.there() == sorted({path.rpartition("/")[2] for path in before if "/there" in path})
    assert on.run("backup").code == 0


@pytest.mark.parametrize("where", ["here", "there"])
@pytest.mark.parametrize(
    "words",
    [
        ("create",),
        ("prune",),
        ("backup",),
        ("run",),
        ("restore", "--in-place", "--path", LIVE),
        ("restore", "--in-place", "--path", f"{LIVE}/sub"),
        ("restore", "--path", f"{LIVE}/sub", "--place", "TARGET"),
    ],
    ids=" ".join,
)
def test_on_a_full_disk_nothing_is_lost(
    rig: Interrupted, words: tuple[str, ...], where: str
) -> None:
    on = rig.on
    prepare(on)
    before = {path: found for path, found in on.digests().items() if not path.endswith(OLD)}
    if where == "here":
        on.does(f"{FULL.format(folder=LIVE)}; :")
    else:
        on.does_there(f"{FULL.format(folder='/there')}; :")

    ran = on.run(*(word.replace("TARGET", on.uuid(SECOND)) for word in words))

    assert ran.code == 0 or any(
        text in one["message"] for one in ran.errors for text in ("full", "No space", "MiB free")
    )
    assert ran.stderr == ""
    after = on.digests()
    assert {path: after.get(path) for path in before} == before
    on.does(f"rm -f {LIVE}/fill")
    on.does_there("rm -f /there/fill; sync -f /there")
    assert on.run("backup").code == 0
