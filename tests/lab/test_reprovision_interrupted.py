"""A reprovision that is broken off in any stage, and run again: it ends as an undisturbed one.

Each way of breaking off has one reinstall, on which one stage after the other is broken off.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import clients, machine, stopping
from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import tended
from tests.lab.points import Points
from tests.lab.reinstalling import has_key_again, inside, reinstall
from tests.lab.road import Road, road_to
from tests.lab.seed import SSHD_PORT
from tests.lab.sshd import Sshd
from tests.lab.test_reprovision import (
    BACKUP_DISK,
    CONTENT,
    DATA,
    NAME,
    STRANGER,
    Before,
    Story,
)
from tests.lab.vault_rig import FIRST, VaultRig
from tests.shards import LAB_REPROVISION_CUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from tests.lab.laptop import Running, Said

pytestmark = pytest.mark.shard(LAB_REPROVISION_CUT)

WAYS: Final = ("killed", "network", "rebooted")
GIVES_UP_AFTER_S: Final = 5  # rigops itself waits a minute for a host that is silent
ENDS_WITHIN_S: Final = 60
_PATIENCE_S: Final = 180


@dataclass(frozen=True)
class Point:
    """The nth thing in a stage that the host does with such a command line."""

    stage: str
    only: str
    number: int = 1
    renames: bool = False
    ways: tuple[str, ...] = WAYS  # without those after which the host goes on by itself, past it

    def __str__(self) -> str:
        return f"{self.stage}: {self.only} {self.number}"


_DPKG: Final = "/usr/bin/dpkg --force-confdef --force-confold --status-fd"
_BORG: Final = "/usr/bin/python3 /usr/bin/borg --log-json --lock-wait 30 extract"
POINTS: Final = (
    Point("trust", "/usr/sbin/sshd -D -R"),
    # In passwd, and not yet in shadow; no home.
    Point("bootstrap", "useradd", 3, renames=True, ways=("killed", "rebooted")),
    Point("bootstrap", "visudo -cqf"),
    Point("bootstrap", "mv -f /etc/sudoers.d/", ways=("rebooted",)),
    Point("disks", "/usr/sbin/sshd -D -R"),
    Point("apply", _DPKG),
    Point("apply", _DPKG, 4, ways=("rebooted",)),
    Point("restore", _BORG),
    Point("restore", "/usr/bin/python3 -I - --json restore --path /home/rig --at", 3, renames=True),
    Point("host keys", _BORG, 2, ways=("killed", "rebooted")),
    Point("host keys", "ssh-keygen -lf /etc/ssh/", 2),  # they are restored, and not in force
    Point("host keys", "/usr/sbin/sshd -t"),
    Point("verify", "/bin/sh /usr/bin/nvidia-smi"),
    Point("compare", "lspci -Dnn"),
)
# Whatever is there is whole: sudo reads it, sshd reads it.
WHOLE: Final = r"""
set -e
! command -v visudo >/dev/null || visudo -cq
/usr/sbin/sshd -t
for home in /root /home/*; do
    [ ! -s $home/.ssh/authorized_keys ] || ssh-keygen -lf $home/.ssh/authorized_keys >/dev/null
done
dpkg --audit
"""
# A reboot leaves it, with a number that another process may have by then.
OTHERS_LOCK: Final = "[ ! -e /etc/passwd.lock ] || printf 1 >/etc/passwd.lock"
HALF: Final = (
    "find / -xdev '(' -name '*.rigops-new*' -o -path '/etc/sudoers.d/.*' -o -name '.rigops-*' ')'"
    " ! -path '/proc/*' ! -path '/sys/*'"
)
# What is another in each installation, or names its time.
SETTINGS: Final = """
find /etc /usr/local /home/rig /root/.ssh /boot -xdev -type f \
    ! -name machine-id ! -name '*.cred' ! -name '*-' ! -name '.pwd.lock' ! -name 'ld.so.*' \
    ! -path '/boot/initrd*' -exec sha256sum {} + | sort -k 2
"""


@dataclass(frozen=True)
class End:
    """In lines."""

    compared: AbstractSet[str]
    installed: AbstractSet[str]
    settings: AbstractSet[str]


class Cut(Story):
    """The laptop reaches the rig by a road that can be cut."""

    def __init__(self, vault: VaultRig, road: Road) -> None:
        super().__init__(vault)
        self.road = road
        self.points = Points(self.host)
        self.declared["ssh_port"] = clients.PROXY_PORT
        self.accepted = ""

    @property
    def key_line(self) -> str:
        record = self.host.record
        return f"[{record.address}]:{clients.PROXY_PORT} {record.host_key}\n"

    def reinstall(self) -> None:
        reinstall(self.host)
        inside(self.host, BACKUP_DISK)
        self.vault.without_sources()
        self.accepted = self.fingerprint

    @property
    def words(self) -> tuple[str, ...]:
        """Always the same command."""
        accepted = ("--accept-host-key", self.accepted)
        return ("reprovision", NAME, "--yes", *accepted, *INVENTORY)

    def broken_off(self, way: str, point: Point) -> Said:
        patience = GIVES_UP_AFTER_S if way == "network" else 0
        words = self.words
        with stopping.before(
            point.stage, self.laptop, *words, gives_up_after_s=patience
        ) as running:
            self.points.watch(point.number, only=point.only, renames=point.renames)
            stopping.go_on(self.laptop)
            self._wait_for(point, running)
            if way == "killed":
                running.process.kill()
            elif way == "network":
                self.road.cut()
            else:
                self.points.cut()
            if way != "rebooted":
                self.points.forget()
            said = running.wait(ENDS_WITHIN_S)
        self.road.mend()
        self._wait_for_host()
        return said

    def _wait_for(self, point: Point, running: Running) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not self.points.reached:
            if running.process.poll() is not None:
                pytest.fail(f"it ended before {point}: {running.wait()}")
            assert time.monotonic() < end, f"{point} was not reached"
            time.sleep(0.02)

    def _wait_for_host(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not self.host.answers:
            assert time.monotonic() < end
            time.sleep(0.1)
        inside(self.host, "systemctl is-system-running --wait >/dev/null || :")
        self.points.forget()

    def whole(self, before: Before) -> End:
        """The same command for the last time: all is as it was."""
        said = self.laptop.rigops(*self.words, "--json", timeout=300)
        assert said.code == 0, said.out + said.err
        has_key_again(self.host, before.host_key)
        (host,) = said.json()["hosts"]
        assert host["status"] == "same", host["compared"]
        assert self.rig.versions() == before.packages
        assert self.rig.does(CONTENT) == before.data
        assert self.known_hosts.read_text() == STRANGER + before.key_line
        assert self.rig.does(HALF) == ""
        again = self.apply()
        assert (again["outcome"], again["changes"]) == ("converged", [])
        return End(
            compared={f"{one['subject']}: {one['verdict']}" for one in host["compared"]},
            installed={*self.rig.does("dpkg-query -W; apt-mark showhold").splitlines()},
            settings={*self.rig.does(SETTINGS).splitlines()},
        )

    def inside(self, script: str) -> str:
        """Whatever key the host shows."""
        pid = machine.leader(self.host.record)
        done = subprocess.run(
            ["nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--pid", "--root",
             "--wd=/", "--", "sh", "-c", script],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    with (
        tended(tmp_path_factory, f"epyc-8x4090={NAME}", f"driver={FIRST}") as booted,
        road_to(booted.host) as road,
    ):
        inside(booted.host, BACKUP_DISK)
        booted.does(DATA)
        yield Cut(VaultRig(booted), road)


@pytest.fixture(scope="module")
def before(cut: Cut) -> Before:
    return Before(cut)


@pytest.fixture(scope="module")
def undisturbed(cut: Cut, before: Before) -> End:
    """What a reprovision makes that nobody breaks off."""
    assert before.machine
    cut.reinstall()
    return cut.whole(before)


def test_who_takes_the_place_of_the_host_between_two_runs_is_refused(
    cut: Cut, before: Before, tmp_path: Path
) -> None:
    assert before.machine
    cut.reinstall()
    with stopping.before("bootstrap", cut.laptop, *cut.words):
        pass  # it is killed, with the new key accepted
    known = cut.known_hosts.read_text()
    assert known == STRANGER + cut.key_line
    without_the_option = ("reprovision", NAME, "--yes", *INVENTORY)

    options = ("LogLevel DEBUG3", "PasswordAuthentication yes")  # the log has each message
    with Sshd(tmp_path / "middle", options) as middle:
        cut.road.end = ("127.0.0.1", middle.port)
        said = [cut.laptop.rigops(*words) for words in (cut.words, without_the_option)]
        log = middle.log.read_text()
    cut.road.end = (cut.host.address, SSHD_PORT)

    for one in said:
        assert one.code == 3, one.out + one.err
        assert middle.fingerprint() in one.out
        assert "failed in the stage trust" in one.out
    assert f"accepted is {cut.accepted}" in said[0].out.replace("\n    ", " ")
    assert cut.known_hosts.read_text() == known
    assert "kex" in log
    assert "userauth" not in log


def test_ssh_config_leads_to_the_host_by_the_key_that_was_accepted(cut: Cut) -> None:
    """Also where the configuration that it includes names other known hosts."""
    config, elsewhere = cut.laptop.folder / "rigs", clients.config().with_name("known_hosts")
    printed = cut.laptop.rigops("ssh-config", *INVENTORY)
    assert printed.code == 0, printed.err
    config.write_text(printed.out)
    known = elsewhere.read_text()
    elsewhere.write_text("")

    words = ["ssh", "-F", str(config), "-l", "root", "-o", "BatchMode=yes", NAME, "id", "-un"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)

    elsewhere.write_text(known)
    assert (done.returncode, done.stdout) == (0, "root\n"), done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_broken_off_in_each_stage_it_ends_as_an_undisturbed_one(
    cut: Cut, before: Before, undisturbed: End, way: str
) -> None:
    cut.reinstall()
    known = {STRANGER + line for line in (before.key_line, cut.key_line)}

    for point in POINTS:
        if way not in point.ways:
            continue
        said = cut.broken_off(way, point)

        if way == "killed":
            assert said.code == -signal.SIGKILL
        else:
            assert said.code in {1, 3}, said.out + said.err
            assert f"failed in the stage {point.stage}" in said.out
            assert re.search("Error: .*fix: ", said.out, re.DOTALL)
        cut.inside(WHOLE)
        if way == "rebooted":
            cut.inside(OTHERS_LOCK)
        assert cut.known_hosts.read_text() in known

    end = cut.whole(before)
    assert end.compared ^ undisturbed.compared == set()
    assert end.installed ^ undisturbed.installed == set()
    assert end.settings ^ undisturbed.settings == set()
