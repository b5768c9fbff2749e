"""The base concern on a booted host: limits that hold, and lines among a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "base-concern"
# Below what the machine of the lab allows, which is a container itself.
LIMITS = {"shm": "1G", "memlock": "4M", "nofile": 8192, "removeipc": False}
NCCL = {"NCCL_P2P_LEVEL": "SYS", "NCCL_DEBUG": "WARN"}
THEIRS = b"# mine: caf\xc3\xa9\nNCCL_DEBUG=WARN # as declared\n\n\tNCCL_SOCKET_IFNAME = eno1"
REMOVE_IPC = (
    "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 "
    "org.freedesktop.login1.Manager RemoveIPC"
)
DEFAULTS = "systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE -p DefaultLimitNOFILESoft"


class Rig(Tended):
    @property
    def conf(self) -> Path:
        return self.host.root / "etc/nccl.conf"

    def says(self, command: str) -> str:
        return self.host.run(command).stdout.strip()

    def shm_kib(self) -> int:
        return int(self.says("df -P -k /dev/shm | awk 'NR == 2 { print $2 }'"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        host.run("cat >/etc/nccl.conf", given=THEIRS.decode())
        yield rig


@pytest.mark.story
def test_declared_limits_hold_for_the_next_login_and_wait_for_services(rig: Rig) -> None:
    host = rig.apply(limits=LIMITS, nccl=NCCL)

    assert host["outcome"] == "changed"
    assert rig.shm_kib() == 1024**2
    assert rig.says("ulimit -l; ulimit -n; ulimit -H -n") == "4096\n8192\n8192"
    assert rig.says(REMOVE_IPC) == "b false"
    waiting = "memlock and nofile count for services that start after the next boot or reload"
    assert any(waiting in text for text in host["notices"])
    assert rig.says("systemctl is-enabled rigops-shm") == "enabled"
    assert rig.says("stat -c '%a %U' /var/lib/rigops") == "755 root"


@pytest.mark.story
def test_lines_of_ours_stand_beside_those_of_a_user_and_repeat_none(rig: Rig) -> None:
    said = rig.conf.read_bytes()

    assert said.endswith(THEIRS)
    assert said.count(b"NCCL_P2P_LEVEL=SYS\n") == 1
    assert said.count(b"NCCL_DEBUG") == 1


@pytest.mark.story
def test_a_second_apply_changes_nothing(rig: Rig) -> None:
    host = rig.apply(limits=LIMITS, nccl=NCCL)

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_a_size_that_somebody_changed_by_hand_is_set_again(rig: Rig) -> None:
    rig.says("mount -o remount,size=2G /dev/shm")

    assert rig.apply(limits=LIMITS, nccl=NCCL)["outcome"] == "changed"
    assert rig.shm_kib() == 1024**2


def test_limits_hold_after_a_reboot(rig: Rig) -> None:
    rig.reboot()

    assert rig.shm_kib() == 1024**2
    assert rig.says(REMOVE_IPC) == "b false"
    assert rig.says("ulimit -n") == "8192"
    assert set(rig.says(DEFAULTS).splitlines()) == {
        "DefaultLimitMEMLOCK=4194304", "DefaultLimitNOFILE=8192", "DefaultLimitNOFILESoft=8192"
    }  # fmt: skip
    assert rig.says("systemctl is-failed rigops-shm") == "active"


def test_a_line_of_somebody_elses_with_another_value_is_named_and_nothing_is_changed(
    rig: Rig,
) -> None:
    before = rig.conf.read_bytes()

    host = rig.apply(1, limits=LIMITS, nccl={"NCCL_SOCKET_IFNAME": "eno2"})

    assert "NCCL_SOCKET_IFNAME = eno1" in host["blocked"][0]["reason"]
    assert rig.conf.read_bytes() == before


def test_limits_that_pam_could_not_set_are_refused_since_nobody_could_log_in(rig: Rig) -> None:
    host = rig.apply(1, limits={"nofile": 1 << 29}, nccl=NCCL)

    assert "every login would be refused" in host["blocked"][0]["reason"]
    assert rig.says("echo still here") == "still here"


def test_keys_taken_out_are_undone_and_the_users_lines_survive_byte_for_byte(rig: Rig) -> None:
    host = rig.apply(limits={"nofile": 8192})

    assert host["outcome"] == "changed"
    assert "/etc/nccl.conf" in {change["subject"] for change in host["changes"]}
    assert rig.conf.read_bytes() == THEIRS
    total = int(rig.says("awk '/MemTotal/ { print $2 }' /proc/meminfo"))
    assert abs(rig.shm_kib() - total // 2) < 1024
    assert rig.says(REMOVE_IPC) == "b true"
    assert "DefaultLimitMEMLOCK=8388608" in rig.says(f"systemctl daemon-reload; {DEFAULTS}")
    assert "memlock" not in rig.says("cat /etc/security/limits.d/90-rigops.conf")
    assert rig.says("ulimit -n") == "8192"
    assert rig.says("ls /etc/systemd/system/rigops-shm.service") == ""


def test_lines_that_a_user_adds_to_a_file_of_ours_stay(rig: Rig) -> None:
    rig.says("rm /etc/nccl.conf")
    rig.apply(nccl=NCCL, limits={})
    rig.says("printf NCCL_IB_DISABLE=1 >>/etc/nccl.conf")
    rig.apply(nccl={}, limits={})

    assert rig.conf.read_bytes() == b"NCCL_IB_DISABLE=1"


def test_the_same_deploy_runs_under_plain_pyinfra(rig: Rig) -> None:
    rig.declare(limits={"shm": "25%"}, nccl=NCCL)
    rig.pyinfra_twice("base.py")

    total = int(rig.says("awk '/MemTotal/ { print $2 }' /proc/meminfo"))
    assert abs(rig.shm_kib() - total // 4) < 1024
    assert "NCCL_P2P_LEVEL=SYS" in rig.says("cat /etc/nccl.conf")
    assert rig.apply(limits={"shm": "25%"}, nccl=NCCL)["outcome"] == "converged"
