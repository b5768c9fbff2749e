"""deploys/rig.py under plain pyinfra: every concern, and its guards."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import DEPLOYS, Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "rig-deploy"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        rig = Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)
        host.run("mkdir -p /etc/tuned && cat >/etc/tuned/bootcmdline",
                 given='TUNED_BOOT_CMDLINE="skew_tick=1"\n')  # fmt: skip
        rig.declare(kernel_args=["iommu=pt"], kernel_trial="off", nccl={"NCCL_P2P_LEVEL": "SYS"})
        yield rig


def test_a_dry_run_tells_what_guards_have_to_say_and_touches_nothing(rig: Tended) -> None:
    done = rig.pyinfra(DEPLOYS / "rig.py", "--dry")

    assert done.returncode == 0, done.stderr
    assert "tuned adds kernel arguments of its own to every boot: skew_tick=1" in done.stderr
    assert rig.host.run("ls /etc/default/grub.d/99-rigops.cfg /var/lib/rigops").returncode != 0


def test_an_ordinary_user_is_told_at_once_to_add_sudo(rig: Tended) -> None:
    before = rig.laptop.folder.joinpath("inventory.py").read_text()
    rig.declare(ssh_user="rig", nccl={"NCCL_P2P_LEVEL": "SYS"})

    planned = rig.pyinfra(DEPLOYS / "rig.py", "--dry")
    done = rig.pyinfra(DEPLOYS / "rig.py", "-y")
    as_root = rig.pyinfra(DEPLOYS / "rig.py", "--dry", "--sudo")
    rig.laptop.folder.joinpath("inventory.py").write_text(before)

    assert "rigops deploys need root: add --sudo" in planned.stderr
    assert done.returncode != 0
    assert "add --sudo" in done.stderr
    assert rig.host.run("ls /var/lib/rigops").returncode != 0
    assert "add --sudo" not in as_root.stderr


@pytest.mark.story
def test_plain_pyinfra_brings_a_rig_to_all_that_is_declared(rig: Tended) -> None:
    done = rig.pyinfra(DEPLOYS / "rig.py", "-y")

    assert done.returncode == 0, done.stderr
    assert "skew_tick=1" in done.stderr
    assert "iommu=pt" in rig.host.run("cat /boot/grub/grub.cfg").stdout
    assert "NCCL_P2P_LEVEL=SYS" in rig.host.run("cat /etc/nccl.conf").stdout


@pytest.mark.story
def test_history_sees_the_run_with_all_that_it_changed(rig: Tended) -> None:
    said = rig.laptop.rigops("history", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    (run,) = said.json()["runs"]
    assert (run["command"], run["outcome"]) == ("pyinfra", "changed")
    assert run["who"].startswith(f"{getpass.getuser()}@")
    assert "kernel argument iommu=pt" in run["changes"]
    assert "/etc/nccl.conf" in [one["subject"] for one in run["values"]]


@pytest.mark.story
def test_a_second_run_has_nothing_to_do_and_nothing_to_say(rig: Tended) -> None:
    done = rig.pyinfra(DEPLOYS / "rig.py", "--dry")

    assert done.returncode == 0, done.stderr
    assert "skew_tick" not in done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if " | " in line]
    assert {tuple(row[-2:]) for row in rows} == {("-", "-")}, done.stderr


def test_a_blocker_stops_plain_pyinfra_at_its_host(rig: Tended) -> None:
    deploy = rig.laptop.folder / "cpu_tuning.py"
    deploy.write_text(
        "from pyinfra.operations import server\n"
        "from rigops.plan.commands import blockers\n"
        "blockers(name='Blockers', concern='cpu_tuning', reasons=('tuned sets it too',))\n"
        "server.shell(name='Governor', commands='touch /changed')\n"
    )

    done = rig.pyinfra(deploy, "-y")

    assert done.returncode != 0
    assert "tuned sets it too" in done.stderr + done.stdout
    assert rig.host.run("ls /changed").returncode != 0
