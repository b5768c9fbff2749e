"""What happens to a target while it gets a snapshot: each is named, and nothing is lost.

A disk is pulled out; a server loses its disk, its power, its network or its room, never answers, or
answers without end; a clock is years off.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import machine, preloaded
from tests.lab.clients import PROXY_PORT
from tests.lab.hosts import ssh_command
from tests.lab.points import Points
from tests.lab.pulled_disk import PulledDisk
from tests.lab.road import road_to
from tests.lab.snapshot_host import PROGRAM, SECOND, Ran, SnapshotHost, let_in, read_ran
from tests.lab.sshd import until
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.conftest import Lab
    from tests.lab.road import Road

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

CUT_OFF: Final = 255  # ssh
RIG: Final = "epyc-8x4090"
FOLDER: Final = "/backup/rigops/epyc"
YEAR_S: Final = 365 * 86_400
MOUNT: Final = f"mkdir -p /backup; mount {SECOND} /backup"
WRAPPER: Final = "/usr/local/sbin/btrfs"  # found before the real one
# A receive waits after its first megabytes, until it may go on.
HALFWAY: Final = """#!/bin/bash
case "$*" in *"receive --chroot"*)
  exec /usr/bin/btrfs "$@" < <(head -c 6000000; mkdir /run/half
  until [ -d /run/on ]; do sleep 0.1; done; exec cat) ;;
esac
exec /usr/bin/btrfs "$@"
"""


@dataclass(frozen=True)
class Pair:
    """A host, and who gets its snapshots: itself, on its other disk, or a server."""

    on: SnapshotHost
    server: SnapshotHost

    @property
    def disk(self) -> PulledDisk:
        return PulledDisk(self.server.host, SECOND)

    def begin(self) -> None:
        """Both have one snapshot, and there is more to send."""
        self.server.does(f"rm -rf {WRAPPER} /run/half /run/on; umount /backup || :")
        self.server.start_anew(keep="")
        if self.on is not self.server:
            self.server.does(f"{MOUNT}; mkdir -p {FOLDER}")
            self.on.start_anew(keep="", send_to=f"root@server:{FOLDER}")
        assert self.on.run("backup").code == 0
        self.on.change(20)

    def whole(self) -> dict[str, str]:
        return {**self.on.digests(), **self.server.digests()}

    def is_well(self, before: dict[str, str]) -> None:
        """What is over raises no alarm."""
        self.server.does(f"while pgrep -f '{PROGRAM} [s]erve'; do sleep 0.1; done")
        ran = self.on.run("backup")
        assert (ran.code, ran.errors) == (0, []), ran.text + ran.stderr
        assert self.on.here() == self.server.there()
        after = self.whole()
        assert {path: after.get(path) for path in before} == before
        assert len(after) == 2 * len(self.on.here())
        assert [one.split("\t")[1] for one in self.findings()] == ["ok"] * 3

    def findings(self) -> list[str]:
        lines = self.on.does(f"{PROGRAM} check").splitlines()
        return [line for line in lines if line.startswith("finding")]


@dataclass
class Halfway:
    """A backup of which the target has got a part."""

    pair: Pair
    ran: Ran = field(init=False)

    def __enter__(self) -> Halfway:  # noqa: PYI034 - Self is newer than what tests run on
        self.pair.server.does(f"cat >{WRAPPER}; chmod 755 {WRAPPER}", HALFWAY)
        self._begun = subprocess.Popen(
            [*ssh_command(), f"root@{self.pair.on.host.name}", f"{PROGRAM} --json backup"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: self.pair.server.host.run("test -d /run/half").returncode == 0, "half of it")
        return self

    def wait(self) -> None:
        """For its end, which nothing else brings about."""
        self._begun.wait(300)

    def __exit__(self, *_: object) -> None:
        self.pair.server.does("mkdir -p /run/on")
        output, errors = self._begun.communicate(timeout=300)
        if self._begun.returncode != CUT_OFF:
            done = subprocess.CompletedProcess("", self._begun.returncode, output, errors)
            self.ran = read_ran(done)
        self.pair.server.does(f"rm -f {WRAPPER}")


@dataclass(frozen=True)
class Scene:
    disk: Pair
    server: Pair
    road: Road


@pytest.fixture(scope="module")
def scene(module_lab: Lab) -> Iterator[Scene]:
    on, server = (SnapshotHost(one) for one in module_lab.up(RIG, RIG))
    for one in (on, server):
        one.install()
    let_in(server, on, FOLDER, PROXY_PORT)
    with road_to(server.host) as road:
        yield Scene(Pair(on, on), Pair(on, server), road)


def reboot(on: SnapshotHost) -> None:
    """All at once, as after a power cut."""
    before = machine.leader(on.host.record)
    Points(on.host).cut()
    until(lambda: machine.leader(on.host.record) != before and on.host.answers, "the next boot")
    on.does("blkid /dev/sda /dev/sdb; mkdir -p /data; mount /dev/sda /data")


def end_session(scene: Scene) -> None:
    scene.server.server.does(
        f"kill -KILL $(ps -o ppid= -p $(pgrep -f '{PROGRAM} [s]erve' | head -1))"
    )


def reboot_server(scene: Scene) -> None:
    reboot(scene.server.server)
    scene.server.server.does(MOUNT)


@pytest.mark.parametrize(
    ("happens", "ends"),
    [
        (end_session, lambda _: None),
        (reboot_server, lambda _: None),
        (lambda scene: scene.road.cut(), lambda scene: scene.road.mend()),
    ],
    ids=["its session is killed", "it reboots", "its network is cut"],
)
def test_a_server_that_is_lost_in_the_middle_is_named_and_gets_the_rest_later(
    scene: Scene, happens: Callable[[Scene], None], ends: Callable[[Scene], None]
) -> None:
    pair = scene.server
    pair.begin()
    before = pair.whole()

    with Halfway(pair) as halfway:
        happens(scene)
        halfway.wait()

    (error,) = halfway.ran.errors
    assert halfway.ran.code == 1
    assert error["message"].startswith(f"root@server:{FOLDER} is unreachable: ")
    assert error["message"].isprintable()
    assert error["fix"] == "see the network and the server"
    (found,) = [line for line in pair.findings() if "\tok\t" not in line]
    assert found == f"finding\tfail\tsnap.target\thost\t{error['message']}"
    ends(scene)
    pair.is_well(before)


def test_a_host_that_reboots_while_it_sends_to_a_server_sends_the_rest_later(scene: Scene) -> None:
    pair = scene.server
    pair.begin()
    before = pair.whole()

    with Halfway(pair):
        reboot(pair.on)

    pair.is_well(before)


def test_a_disk_that_is_pulled_out_in_the_middle_is_named_and_gets_the_rest_later(
    scene: Scene,
) -> None:
    pair = scene.disk
    pair.disk.make()
    pair.begin()
    before = pair.whole()
    disk = pair.on.uuid(SECOND)

    with Halfway(pair) as halfway:
        pair.disk.pull()

    ran = halfway.ran
    assert (ran.code, [one["message"] for one in ran.errors]) == (
        1,
        [f"{disk}: the disk was disconnected while it was in use"],
    )
    assert ran.errors[0]["fix"] == "connect it: the next run sends what it lacks"
    (found,) = [line for line in pair.findings() if "\tok\t" not in line]
    assert found == f"finding\tfail\tsnap.target\thost\t{ran.errors[0]['message']}"
    without = pair.on.run("run")
    assert (without.code, without.errors) == (0, [])
    assert "is absent (last seen: 2" in without.text
    pair.disk.plug()
    pair.is_well(before)


def test_a_server_whose_disk_is_pulled_out_in_the_middle_says_so_and_gets_the_rest_later(
    scene: Scene,
) -> None:
    pair = scene.server
    pair.disk.make()
    pair.begin()
    before = pair.whole()

    with Halfway(pair) as halfway:
        pair.disk.pull()

    without = pair.on.run("run")
    assert (halfway.ran.code, without.code) == (1, 1)
    assert "the disk does not read or write" in halfway.ran.errors[0]["message"]
    gone = f"root@server:{FOLDER}: {SECOND}: the disk is not connected any more"
    for ran in (halfway.ran, without):
        assert ran.errors[-1] == {"message": gone, "fix": "connect it, and mount it again"}
    assert f"finding\tfail\tsnap.target\thost\t{gone}" in pair.findings()
    pair.server.does("umount -l /backup")
    pair.disk.plug()
    pair.server.does(MOUNT)
    pair.is_well(before)


ANSWERING: Final = (
    f"mv {PROGRAM} {PROGRAM}.real; printf '#!/bin/sh\\n{{}}\\n' >{PROGRAM}; chmod 755 {PROGRAM}"
)
ROWS: Final = (
    (
        "full",
        "for _ in 1 2 3; do cat /dev/zero >>/backup/fill 2>/dev/null; sync -f /backup; done; :",
        "rm /backup/fill; sync -f /backup",
        "the file system is full",
        1,
    ),
    (
        "read-only",
        f"umount /backup; blockdev --setro {SECOND}; {MOUNT}",
        f"umount /backup; blockdev --setrw {SECOND}; {MOUNT}",
        "the file system is read-only",
        1,
    ),
    (
        "silent",
        ANSWERING.format("exec sleep 1000"),
        f"mv {PROGRAM}.real {PROGRAM}",
        "gave no answer in 60 s; the next run sends",
        0,
    ),
    *(
        (
            name,
            ANSWERING.format(command),
            f"mv {PROGRAM}.real {PROGRAM}",
            text,
            code,
        )
        for name, command, text, code in (
            ("flooding", "exec yes", "something else than the snapshot program answers", 1),
            ("complaining", "exec yes >&2", "gave no answer in 60 s; the next run sends", 0),
        )
    ),
)


@pytest.mark.parametrize(
    ("breaks", "mends", "says", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_wrong_with_a_server_is_named_and_it_gets_the_rest_later(
    scene: Scene, breaks: str, mends: str, says: str, code: int
) -> None:
    pair = scene.server
    pair.begin()
    before = pair.whole()
    pair.server.does(breaks)

    ran = pair.on.run("backup")

    assert ran.code == code, ran.text
    assert says in ran.text
    assert all(one["fix"] for one in ran.errors), ran.errors
    assert any(says.partition(";")[0] in str(one) for one in (pair.on.state(), ran.errors))
    pair.server.does(mends)
    pair.is_well(before)


@pytest.mark.parametrize("years", [-5, 5])
@pytest.mark.parametrize("kind", ["disk", "server"])
def test_one_run_with_a_clock_years_off_removes_nothing(
    scene: Scene, kind: str, years: int
) -> None:
    pair: Pair = getattr(scene, kind)
    on = pair.on
    pair.begin()
    assert on.run("backup").code == 0
    on.declare(keep="1h", send_to=on.state()["target"]["name"])
    before = pair.whole()
    preloaded.preload(on.host, "clock")

    on.does(f"echo {years * YEAR_S} >/etc/clock-offset")
    ran = on.run("run")
    on.does("rm /etc/ld.so.preload /etc/clock-offset")

    assert (ran.code, ran.errors, ran.names("pruned")) == (0, [], []), ran.text
    assert years < 0 or len(ran.result["held"]) == 1  # of before, none is old
    on.declare(keep="", send_to=on.state()["target"]["name"])
    pair.is_well(before)
