"""A run that is killed with all that it has started: nothing older is lost, and the next recovers.

Points are the starts of its programs and its renames: of taking, pruning, sending and restoring.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.hosts import ssh_command
from tests.lab.points import Points
from tests.lab.snapshot_host import HERE, LIVE, PROGRAM, SECOND, Ran, SnapshotHost
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

RIG: Final = "epyc-8x4090"
THERE: Final = "/there/rigops/epyc/data%2Fhome"
OLD: Final = tuple(f"202611{day:02}T060000Z-timer" for day in (1, 2))
# All that a restore brings back, and nothing of what it has to leave alone.
CONTENT: Final = f"cd {LIVE}; find sub small -printf '%P %m %U %G %s %T@\\n'; sha256sum sub/big"
LEFT: Final = (
    "ls -d /var/lib/rigops/restoring.json 2>/dev/null; find /data /root -name '.rigops-restore-*'"
)


@dataclass(frozen=True)
class Rig:
    on: SnapshotHost
    counts: dict[str, int] = field(default_factory=dict)  # of points, by what is done

    @cached_property
    def uuid(self) -> str:
        return self.on.uuid(SECOND)

    def begin(self) -> None:
        """One snapshot is at both places, and more is there to be taken, pruned and sent."""
        self.on.start_anew(keep="1h 1d")
        assert self.on.run("backup").code == 0
        self.on.does_there(
            f"head -c 4000000 /dev/urandom >{LIVE}/more; for one in {' '.join(OLD)}; do"
            f" btrfs -q subvolume snapshot -r {LIVE} {HERE}/$one;"
            f" btrfs -q send {HERE}/$one | btrfs -q receive {THERE}; done"
        )

    def kill_at(self, point: int, *words: str) -> None:
        points = Points(self.on.host)
        before = points.watch_command(point)
        command = f"echo $$ >/run/group; exec env {before} {PROGRAM} {' '.join(words)}"
        begun = subprocess.Popen(
            [*ssh_command(), f"root@{self.on.host.name}", f"setsid -w sh -c '{command}'"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        points.wait()
        self.on.does("kill -KILL -- -$(cat /run/group)")
        begun.wait(180)
        self.on.does("rm -r /run/points")

    def count(self, *words: str) -> int:
        points = Points(self.on.host)
        ran = self.on.run(*words, before=points.watch_command())
        found = points.count
        self.on.does("rm -r /run/points")
        assert ran.code == 0, ran.text + ran.stderr
        return found


@dataclass(frozen=True)
class Work:
    """What is done and killed, at so many points. `follows`: once it is redone."""

    name: str
    words: tuple[str, ...]
    points: int
    follows: Callable[[Rig, Ran, str], None]
    prepares: str = ":"
    goes: tuple[str, ...] = ()  # names that it may remove


def is_taken(rig: Rig, ran: Ran, _: str) -> None:
    assert set(ran.names("created")) < set(rig.on.here())


def is_pruned(rig: Rig, _: Ran, __: str) -> None:
    assert not set(OLD) & {*rig.on.here(), *rig.on.there()}


def is_sent(rig: Rig, ran: Ran, _: str) -> None:
    is_pruned(rig, ran, "")
    assert rig.on.there()[-1] == rig.on.here()[-1] == ran.names("created")[0]


def is_restored(rig: Rig, _: Ran, was: str) -> None:
    assert rig.on.does(CONTENT) == was
    assert rig.on.does(LEFT) == ""
    assert rig.on.does("find /data -name newer -exec cat {} +").splitlines()[0] == "newer"
    ran = rig.on.run("backup")
    assert ran.code == 0, ran.text + ran.stderr
    assert all(one["parent"] for one in ran.result["sent"])


def is_restored_whole(rig: Rig, ran: Ran, was: str) -> None:
    assert rig.on.does(f"cat {LIVE}/machines/disk") == "vm"
    is_restored(rig, ran, was)


NEWER: Final = f"echo newer >{LIVE}/sub/newer; echo x >>{LIVE}/sub/big"
WORKS: Final = (
    Work("take", ("create",), 3, is_taken),
    Work("prune", ("prune", "--prune-most"), 6, is_pruned, goes=OLD),
    Work("send", ("backup",), 10, is_sent, goes=OLD),
    Work(
        "restore-tree",
        ("restore", "--in-place", "--path", f"{LIVE}/sub"),
        6,
        is_restored,
        NEWER,
    ),
    Work(
        "restore-subvolume",
        ("restore", "--in-place", "--path", LIVE),
        8,
        is_restored_whole,
        f"{NEWER}; btrfs -q subvolume create {LIVE}/machines; echo vm >{LIVE}/machines/disk;"
        f" btrfs -q subvolume delete {HERE}/*Z-*",
    ),
)
CASES: Final = [
    pytest.param(work, point, id=f"{work.name}-{point}")
    for work in WORKS
    for point in range(1, work.points + 1)
]


@pytest.fixture(scope="module")
def rig(module_lab: Lab) -> Rig:
    on = SnapshotHost(module_lab.one(RIG))
    on.install()
    return Rig(on)


def whole(rig: Rig, work: Work) -> dict[str, Any]:
    return {path: one for path, one in rig.on.digests().items() if not path.endswith(work.goes)}


@pytest.mark.parametrize(("work", "point"), CASES)
def test_killed_with_all_that_it_started_it_loses_nothing_and_the_next_recovers(
    rig: Rig, work: Work, point: int
) -> None:
    rig.begin()
    was = rig.on.does(CONTENT)
    rig.on.does(work.prepares)
    if work.name not in rig.counts:
        rig.counts[work.name] = rig.count(*work.words)
        rig.begin()
        was = rig.on.does(CONTENT)
        rig.on.does(work.prepares)
    before = whole(rig, work)
    assert len(before) > 0

    rig.kill_at(max(1, rig.counts[work.name] * point // work.points), *work.words)

    after = rig.on.digests()
    assert {path: after.get(path) for path in before} == before
    ran = rig.on.run(*work.words)
    assert ran.code == 0, ran.text + ran.stderr
    after = rig.on.digests()
    assert {path: after.get(path) for path in before} == before
    work.follows(rig, ran, was)
