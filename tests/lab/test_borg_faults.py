"""What happens to a repository while an archive is made: each is named, and nothing is lost.

A disk is pulled out; a server loses its disk, its power, its network or its room, never answers, or
answers without end; a clock is years off; the host itself loses its power.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import machine, preloaded
from tests.lab.borg_host import BORG, LIVE, PROGRAM, REPOSITORY, SECOND, WRAPPER, BorgHost
from tests.lab.clients import PROXY_PORT
from tests.lab.hosts import ssh_command
from tests.lab.points import Points
from tests.lab.pulled_disk import PulledDisk
from tests.lab.road import road_to
from tests.lab.snapshot_host import Ran, read_ran
from tests.lab.sshd import until
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.conftest import Lab
    from tests.lab.road import Road

pytestmark = pytest.mark.shard(LAB_BORG)

CUT_OFF: Final = 255  # ssh
RIG: Final = "epyc-8x4090"
YEAR_S: Final = 365 * 86_400
# borg itself, which waits once some megabytes have been stored, until it may go on.
HALFWAY: Final = """#!/usr/bin/python3
import os, sys, time
from borg.archiver import main
from borg.remote import RemoteRepository
from borg.repository import Repository
stored = 0
def slowed(put):
    def call(repository, number, data, *words, **named):
        global stored
        stored += len(data)
        if stored > 8_000_000 and not os.path.exists("/run/half"):
            os.mkdir("/run/half")
            while not os.path.exists("/run/on"):
                time.sleep(0.1)
        return put(repository, number, data, *words, **named)
    return call
if "create" in sys.argv:
    for one in (Repository, RemoteRepository):
        one.put = slowed(one.put)
main()
"""


@dataclass(frozen=True)
class Pair:
    """A host, and who has its repository: itself, on its other disk, or a server."""

    on: BorgHost
    server: BorgHost

    @property
    def disk(self) -> PulledDisk:
        return PulledDisk(self.server.host, SECOND)

    @property
    def repository(self) -> str:
        if self.on is self.server:
            return REPOSITORY
        return f"ssh://root@{self.server.host.address}:{PROXY_PORT}{REPOSITORY}"

    def begin(self) -> None:
        """There is one archive, and more to store."""
        self.on.does(f"rm -rf {WRAPPER} /run/half /run/on")
        self.server.start_anew(keep="")
        if self.on is not self.server:
            self.on.start_anew(keep="", repository=self.repository)
        for words in (("init",), ("backup",), ("drill",)):
            ran = self.on.run(*words)
            assert ran.code == 0, ran.text + ran.stderr
            self.server.does(f"{BORG} config {REPOSITORY} max_segment_size {4 << 20}")
        self.on.does(f"head -c 24000000 /dev/urandom >{LIVE}/more")

    def archives(self) -> set[str]:
        """With their ids, as the place itself has them."""
        shape = "{name} {id}{NL}"
        listed = self.server.does(f"{BORG} list --bypass-lock --format '{shape}' {REPOSITORY}")
        return set(listed.splitlines())

    def is_well(self, before: set[str]) -> None:
        """What is over raises no alarm."""
        self.server.does("while pgrep -f 'borg [s]erve'; do sleep 0.1; done")
        ran = self.on.run("run")
        assert (ran.code, ran.errors) == (0, []), ran.text + ran.stderr
        after = self.archives()
        assert before < after
        assert not [one for one in after if "checkpoint" in one]
        assert [one.split("\t")[1] for one in self.findings()] == ["ok"] * 5
        drilled = self.on.run("drill")
        assert drilled.code == 0, drilled.text

    def findings(self) -> list[str]:
        lines = self.on.does(f"{PROGRAM} check").splitlines()
        return [line for line in lines if line.startswith("finding")]


@dataclass
class Halfway:
    """A backup of which a part is stored."""

    pair: Pair
    ran: Ran = field(init=False)

    def __enter__(self) -> Halfway:  # noqa: PYI034 - Self is newer than what tests run on
        on = self.pair.on
        on.does(f"rm -rf /run/half /run/on; cat >{WRAPPER}; chmod 755 {WRAPPER}", HALFWAY)
        self._begun = subprocess.Popen(
            [*ssh_command(), f"root@{on.host.name}", on.command("backup")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: on.host.run("test -d /run/half").returncode == 0, "half of it")
        return self

    def __exit__(self, *_: object) -> None:
        self.pair.on.does("mkdir -p /run/on")
        output, errors = self._begun.communicate(timeout=600)
        if self._begun.returncode != CUT_OFF:
            done = subprocess.CompletedProcess("", self._begun.returncode, output, errors)
            self.ran = read_ran(done)
        self.pair.on.does(f"rm -f {WRAPPER}")


@dataclass(frozen=True)
class Scene:
    disk: Pair
    server: Pair
    road: Road


@pytest.fixture(scope="module")
def scene(module_lab: Lab) -> Iterator[Scene]:
    on, server = (BorgHost(one) for one in module_lab.up(RIG, RIG))
    for one in (on, server):
        one.install()
    on.does("mkdir -p /etc/rigops; ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/rigops/borg_key")
    serve = f"borg serve --restrict-to-repository {REPOSITORY}"
    line = f'command="{serve}",restrict {on.does("cat /etc/rigops/borg_key.pub")}'
    server.does("mkdir -p -m 700 /root/.ssh; cat >>/root/.ssh/authorized_keys", f"{line}\n")
    with road_to(server.host) as road:
        yield Scene(Pair(on, on), Pair(on, server), road)


def reboot(on: BorgHost) -> None:
    """All at once, as after a power cut."""
    before = machine.leader(on.host.record)
    Points(on.host).cut()
    until(lambda: machine.leader(on.host.record) != before and on.host.answers, "the next boot")
    on.does("mkdir -p /data /mnt/backup; mount /dev/sda /data; mount /dev/sdb /mnt/backup")


def end_session(scene: Scene) -> None:
    scene.server.server.does("kill -KILL $(ps -o ppid= -p $(pgrep -f 'borg [s]erve' | head -1))")


def cut_network(scene: Scene) -> None:
    scene.road.cut()
    scene.server.on.does("mkdir /run/on")


def mend_network(scene: Scene) -> None:
    """The server's borg waits for what does not come any more, until its sshd finds that out."""
    pair = scene.server
    away = pair.on.run("run")
    scene.road.mend()
    locked = pair.on.run("run")
    assert (away.code, locked.code) == (1, 1)
    assert "the server does not answer" in away.text
    assert "locked for 0 min. wait; if nothing runs there any more: `borg break-lock" in locked.text
    assert {line.split("\t")[1] for line in pair.findings()} == {"ok"}
    pair.server.does("kill $(pgrep -f 'borg [s]erve')")


@pytest.mark.parametrize(
    ("happens", "ends"),
    [
        (end_session, lambda _: None),
        (lambda scene: reboot(scene.server.server), lambda _: None),
        (cut_network, mend_network),
    ],
    ids=["its session is killed", "it reboots", "its network is cut"],
)
def test_a_server_that_is_lost_in_the_middle_is_named_and_the_next_run_stores_the_rest(
    scene: Scene, happens: Callable[[Scene], None], ends: Callable[[Scene], None]
) -> None:
    pair = scene.server
    pair.begin()
    before = pair.archives()

    with Halfway(pair) as halfway:
        happens(scene)

    (error,) = halfway.ran.errors
    assert halfway.ran.code == 1
    lost = ("the connection was lost", "the server does not answer")  # by where borg meets it
    assert error["message"] in {f"{pair.repository}: {one}" for one in lost}
    assert error["fix"].startswith("see the network")
    (found,) = [line for line in pair.findings() if "\tok\t" not in line]
    assert found.startswith("finding\twarn\tborg.repository")  # its age fails when it lasts
    assert error["message"] in found
    ends(scene)
    pair.is_well(before)


@pytest.mark.parametrize("kind", ["disk", "server"])
def test_a_host_that_reboots_in_the_middle_stores_the_rest_later(scene: Scene, kind: str) -> None:
    pair: Pair = getattr(scene, kind)
    pair.begin()
    before = pair.archives()

    with Halfway(pair):
        reboot(pair.on)

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
    on.declare(keep="1h", repository=pair.repository)
    before = pair.archives()
    preloaded.preload(on.host, "clock")

    on.does(f"echo {years * YEAR_S} >/etc/clock-offset")
    ran = on.run("run")
    on.does("rm /etc/ld.so.preload /etc/clock-offset")

    assert (ran.code, ran.errors, ran.names("pruned")) == (0, [], []), ran.text
    assert years < 0 or len(ran.result["held"]) == 1  # of before, none is old
    on.declare(keep="", repository=pair.repository)
    pair.is_well(before)


ANSWERING: Final = f"printf '#!/bin/sh\\n{{}}\\n' >{WRAPPER}; chmod 755 {WRAPPER}"
ROWS: Final = {
    "full": (
        "for _ in 1 2; do cat /dev/zero >>/mnt/backup/fill; sync -f /mnt/backup; done; :",
        "rm /mnt/backup/fill; sync -f /mnt/backup",
        "full",
    ),
    "read-only": (
        "mount -o remount,ro /mnt/backup",
        "mount -o remount,rw /mnt/backup",
        "the disk is read-only",
    ),
    "flooding": (ANSWERING.format("exec yes"), f"rm {WRAPPER}", "something else than borg answers"),
}


@pytest.mark.parametrize(("breaks", "mends", "says"), ROWS.values(), ids=ROWS)
def test_what_is_wrong_with_a_server_is_named_and_the_next_run_stores_it(
    scene: Scene, breaks: str, mends: str, says: str
) -> None:
    pair = scene.server
    pair.begin()
    before = pair.archives()
    pair.server.does(breaks)

    ran = pair.on.run("backup")

    assert (ran.code, len(ran.errors)) == (1, 1), ran.text
    assert says in ran.errors[0]["message"]
    assert ran.errors[0]["fix"]
    (found,) = [line for line in pair.findings() if "\tok\t" not in line]
    assert ran.errors[0]["message"] in found
    pair.server.does(mends)
    pair.is_well(before)


@pytest.mark.parametrize("kind", ["disk", "server"])
def test_a_disk_that_is_pulled_out_in_the_middle_is_named_and_the_next_run_stores_the_rest(
    scene: Scene, kind: str
) -> None:
    pair: Pair = getattr(scene, kind)
    pair.disk.make()
    pair.begin()
    before = pair.archives()
    texts = {  # btrfs turns read-only once a write has failed
        "disk": {"its disk was disconnected while it was mounted"},
        "server": {"the disk does not read or write", "the disk is read-only"},
    }[kind]

    with Halfway(pair) as halfway:
        pair.disk.pull()

    mounted = pair.on.run("run")
    for ran in (halfway.ran, mounted):
        assert (ran.code, len(ran.errors)) == (1, 1), ran.text
        assert ran.errors[0]["message"] in {f"{pair.repository}: {one}" for one in texts}
    finding = f"finding\tfail\tborg.repository\t{pair.repository}\t"
    assert f"{finding}{mounted.errors[0]['message']}" in pair.findings()
    pair.server.does("umount -l /mnt/backup")
    absent = pair.on.run("run")
    assert absent.code == (0 if kind == "disk" else 1)
    assert "is absent (last seen: 2" in absent.text
    pair.disk.plug()
    pair.server.does(f"mount {SECOND} /mnt/backup")
    pair.is_well(before)
