"""Reboots of really booted hosts: quick, slow, double, never ending, with another key.

The machine's own forced reset (sysrq, a watchdog) cannot be shown here: a container has neither.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from rigops.converge.reboot import order_only, reboot
from rigops.converge.reboot_impact import find
from rigops.errors import RigopsError
from rigops.transport import HostKeyPolicy, Target, TransportError, connect, with_password
from tests.lab import clients, frozen, hosts, machine
from tests.lab.sshd import until
from tests.shards import LAB_FLEET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.reboot_impact import RebootImpact
    from rigops.transport import Connection, Privilege
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_FLEET)

LOCK = "setsid systemd-inhibit --what=shutdown --mode={mode} --who=backup --why='it runs' sleep 600"
UNIT = """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop={stop}
TimeoutStopSec=infinity
"""


class Login:
    """As the user rig, who has sudo; the connection is the one of the last boot."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.target = Target(
            name=host.name, hostname=host.name, user="rig", config_file=str(clients.config())
        )
        self.connection: Connection = connect(self.target, host_keys=HostKeyPolicy())
        self.privilege: Privilege = with_password(self.connection, "")

    def boot_id(self) -> bytes:
        answer = self.connection.run(["cat", "/proc/sys/kernel/random/boot_id"], deadline_s=60)
        return answer.stdout

    def reboot(self, *, deadline_s: float = 180, last_resort_s: float | None = None) -> float:
        """How long it took until another boot answered."""
        before, began = self.boot_id(), time.monotonic()
        self.connection = reboot(
            self.connection,
            self.target,
            self.privilege,
            deadline_s=deadline_s,
            waiting=lambda _: None,
            last_resort_s=last_resort_s,
        )
        assert self.boot_id() != before
        return time.monotonic() - began

    def find_impact(self) -> RebootImpact:
        return find(self.connection, self.privilege)

    def inside(self, command: str) -> None:
        """Past ssh, which may be what does not answer."""
        machine.enter(self.host.record, machine.leader(self.host.record), "sh", "-euc", command)

    def stopping_is(self, stop: str) -> None:
        self.host.run(
            "cat >/run/systemd/system/lasting.service && systemctl start lasting",
            given=UNIT.format(stop=stop),
        )

    def hold(self, mode: str) -> None:
        held = "until systemd-inhibit --list | grep -q backup; do sleep 0.1; done"
        self.host.run(f"{LOCK.format(mode=mode)} </dev/null >/dev/null 2>&1 & {held}")


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return module_lab.one("nvlink-2x3090")


@pytest.fixture
def login(host: Host) -> Iterator[Login]:
    login = Login(host)
    yield login
    login.connection.close()


# ---- before


def test_who_and_what_would_be_interrupted_is_told(login: Login) -> None:
    # No real card is behind the nodes here, so a job has a file that has such a name.
    job = "setsid sh -c 'exec sleep 600 9</dev/nvidia9' </dev/null >/dev/null 2>&1"
    login.host.run(f"touch /dev/nvidia9; {job} &")
    login.hold("delay")

    seen = login.find_impact()

    (found,) = seen.busy_gpus
    assert (found.name, found.user) == ("sleep", "root")
    assert found.seconds is not None
    assert found.seconds < 60
    assert [(lock.who, lock.why, lock.mode) for lock in seen.inhibitors] == [
        ("backup", "it runs", "delay")
    ]
    assert (seen.wedged, seen.unreadable) == ((), ())
    login.host.run("pkill -f 'sleep 60[0]'; rm /dev/nvidia9")


def test_a_quiet_host_has_nobody_and_the_drivers_own_daemon_is_no_job(login: Login) -> None:
    assert login.find_impact().lines() == ()


def test_who_sits_at_a_terminal_is_told(login: Login) -> None:
    person = subprocess.Popen(
        [*hosts.ssh_command(), "-tt", f"root@{login.host.name}", "sleep 60"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: login.find_impact().users, "a login")
        users = login.find_impact().users
    finally:
        person.terminate()
        person.wait()

    assert [(user.name, user.tty[:4]) for user in users] == [("root", "pts/")]


def test_a_lock_that_blocks_is_named_and_the_host_goes_on(login: Login) -> None:
    login.hold("block")
    before = login.boot_id()

    with pytest.raises(RigopsError, match=r"backup \(\d+\) asks not to shut down: it runs"):
        login.reboot()

    time.sleep(1)
    assert login.boot_id() == before
    login.host.run("pkill -f 'sleep 60[0]'")


# ---- reboots


def test_a_host_can_be_rebooted_twice_in_a_row(login: Login) -> None:
    old = login.connection
    login.reboot()
    login.reboot()

    with pytest.raises(TransportError):
        old.run(["true"], deadline_s=60)
    state = login.connection.run(["systemctl", "is-system-running"], deadline_s=60)
    assert state.stdout.strip() in {b"running", b"degraded"}


def test_a_host_that_reboots_once_more_by_itself_is_found_again(login: Login) -> None:
    """As after a change of firmware: ssh answers, and then the host is gone once more."""
    login.host.run(
        "cat >/etc/systemd/system/again.service; systemctl enable again; touch /etc/again",
        given="[Unit]\nConditionPathExists=/etc/again\nAfter=ssh.service\n"
        "[Service]\nType=oneshot\n"
        "ExecStart=sh -c 'sleep 2; rm /etc/again; systemctl reboot; sleep 60'\n"
        "[Install]\nWantedBy=multi-user.target\n",
    )

    login.reboot()

    assert login.connection.run(["test", "-e", "/etc/again"], deadline_s=60).exit_code == 1
    login.host.run("systemctl disable again; rm /etc/systemd/system/again.service")


def test_a_host_that_does_not_come_back_ends_at_the_deadline(login: Login) -> None:
    login.host.run("systemctl disable ssh")
    began = time.monotonic()

    with pytest.raises(RigopsError) as caught:
        login.reboot(deadline_s=20)

    assert 20 <= time.monotonic() - began < 20 + 30
    (problem,) = caught.value.problems
    assert f"{login.host.name}: it did not come back within 20 s" in problem.message
    assert "refused" in problem.message
    assert "reboot_timeout" in problem.fix
    login.inside("systemctl enable --now ssh")
    until(lambda: login.host.answers, "sshd")


def test_another_host_key_after_the_reboot_is_refused_at_once(login: Login) -> None:
    login.host.run(
        "cd /etc/ssh; mkdir kept; mv ssh_host_* kept; "
        "ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key"
    )

    with pytest.raises(TransportError) as caught:
        login.reboot()

    assert caught.value.kind == "key_changed"
    login.inside("mv -f /etc/ssh/kept/* /etc/ssh; rmdir /etc/ssh/kept; systemctl restart ssh")
    until(lambda: login.host.answers, "sshd")


def test_the_order_alone_leaves_time_to_finish(login: Login) -> None:
    before = login.boot_id()
    order_only(login.connection, login.privilege)

    assert login.boot_id() == before
    until(lambda: not login.host.answers, "the shutdown")
    until(lambda: login.host.answers, "sshd")
    with Login(login.host).connection as again:
        now = again.run(["cat", "/proc/sys/kernel/random/boot_id"], deadline_s=60).stdout
    assert now != before


def test_a_slow_shutdown_is_waited_for(login: Login) -> None:
    login.stopping_is("sleep 20")

    assert login.reboot() >= 20


def test_a_refused_order_leaves_no_last_resort_behind(login: Login) -> None:
    before = login.boot_id()
    login.host.run("systemctl mask --runtime reboot.target")

    with pytest.raises(RigopsError, match="refused to reboot"):
        login.reboot(last_resort_s=3)

    time.sleep(5)
    assert login.boot_id() == before
    assert login.host.run("ls /run/rigops").stdout == ""
    login.host.run("systemctl unmask --runtime reboot.target")


def test_the_last_resort_ends_a_shutdown_that_hangs_and_passes_every_lock(login: Login) -> None:
    login.stopping_is("sleep 600")
    login.hold("block")

    assert login.reboot(last_resort_s=8) >= 8
    said = login.host.run("journalctl -b -1 -t rigops -o cat --no-pager").stdout
    assert "has not come to its end" in said
    assert login.host.run("ls /run/rigops /run/systemd/system").stdout.count("last-resort") == 0


def test_the_last_resort_survives_the_end_of_all_units_and_processes(login: Login) -> None:
    """The host's systemd runs what is in this folder once it has killed everything else."""
    hook = "/usr/lib/systemd/system-shutdown/hang"
    login.host.run(f"mkdir -p {hook.rpartition('/')[0]}; cat >{hook}; chmod 755 {hook}",
                   given="#!/bin/sh\nsleep 600\n")  # fmt: skip

    assert login.reboot(last_resort_s=8) >= 8
    login.host.run(f"rm {hook}")


def test_a_wedged_host_is_seen_and_reboots_by_force(login: Login) -> None:
    """The machine thaws it once it ends by force, as a reset of the hardware would.

    Else it would hold systemd for minutes, and then this container for ever.
    """
    host = login.host
    host.set("smi=unkillable")
    host.run(f"setsid nvidia-smi -L </dev/null >/dev/null 2>&1 & {frozen.UNTIL_IT_HOLDS}")
    host.run("sed -i 's/unkillable/ok/' /etc/rigsim/rig.json")  # for the next boot
    (task,) = login.find_impact().wedged
    assert task.comm == "nvidia-smi"
    began, ended = time.monotonic(), threading.Event()
    first = machine.leader(host.record)
    forced: list[float] = []

    def let_go() -> None:
        while not ended.wait(0.1) and os.path.lexists(f"/proc/{first}/root/etc"):
            pass
        forced.append(time.monotonic() - began)
        frozen.thaw(host.record.group)

    watcher = threading.Thread(target=let_go)
    watcher.start()
    try:
        login.reboot(last_resort_s=8)
    finally:
        ended.set()
        watcher.join()

    assert 8 <= forced[0] < 120  # systemd itself waits for twice 90 s
    assert login.find_impact().wedged == ()
    host.set("smi=ok")
