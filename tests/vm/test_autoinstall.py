"""Systems whose storage the rendered commands have finished, started from their own GRUB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.vm.requirements import lacks
from tests.shards import VM_INSTALL
from tests.vm import installing
from tests.vm.installing import Booted, Case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(VM_INSTALL)

CASES = (
    Case("debian", "btrfs"),
    Case("ubuntu", "btrfs"),
    Case("debian", "ext4"),
    Case("ubuntu", "ext4"),
)


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if reason := lacks():
        pytest.skip(f"vm tier: {reason}")
    return installing.install(tmp_path_factory.mktemp("install"), CASES)


@pytest.fixture(scope="module")
def booted(
    disks: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Booted]:
    """Started once for all the tests of a case."""
    case: Case = request.param
    machine = Booted.start(tmp_path_factory.mktemp(case.name) / "on", disks[case.name], "raw")
    yield machine
    machine.process.kill()


@pytest.mark.parametrize("booted", CASES[:2], ids=lambda case: case.name, indirect=True)
def test_a_btrfs_boots_from_its_subvolumes(booted: Booted) -> None:
    way = booted.access
    found = installing.mounts(way)
    top = "mount -o subvolid=5 $(findmnt -nvo SOURCE /) /mnt && ls -A /mnt && umount /mnt"

    assert found["/"] == ("btrfs", "/@")
    assert found["/home"] == ("btrfs", "/@home")
    assert found["/boot"] == ("ext4", "/")
    assert "rootflags=subvol=@ " in way.ssh("cat /proc/cmdline") + " "
    assert way.ssh(top).split() == ["@", "@home"]
    assert way.ssh("ls -A /home") == "rig"
    assert way.ssh("findmnt --verify --tab-file /etc/fstab >/dev/null && echo good") == "good"
    assert way.ssh("systemctl --failed --quiet --no-legend") == ""


@pytest.mark.parametrize("booted", CASES[2:], ids=lambda case: case.name, indirect=True)
def test_an_ext4_boots(booted: Booted) -> None:
    found = installing.mounts(booted.access)

    assert found["/"] == ("ext4", "/")
    assert not {"/home", "/boot"} & found.keys()


@pytest.mark.parametrize("booted", CASES[:1], ids=lambda case: case.name, indirect=True)
def test_the_user_logs_in_with_the_key_alone_and_has_sudo(booted: Booted) -> None:
    way = booted.access
    assert way.ssh("sudo -n id -u", user=installing.USER) == "0"
    assert way.ssh("sudo visudo -c >/dev/null && echo good", user=installing.USER) == "good"
    assert way.ssh("stat -c '%U %a' ~/.ssh/authorized_keys", user=installing.USER) == "rig 600"


@pytest.mark.parametrize("booted", CASES[:2], ids=lambda case: case.name, indirect=True)
def test_unattended_upgrades_leave_the_driver_alone(booted: Booted) -> None:
    said = booted.access.ssh("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^libnvidia-"' in said
