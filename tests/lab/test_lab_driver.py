"""The driver of a running host: loaded and unloaded by modprobe, and changed by the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.errors import LabError
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_ITSELF)

LOADED = "cat /proc/driver/nvidia/version"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
VERSION = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
PACKAGES = "dpkg-query -W; apt-mark showhold; find /etc/apt -type f | sort | xargs cat"


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return module_lab.one("threadripper-3x3090")


def _says(host: Host, command: str) -> str:
    done = host.run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _versions(host: Host) -> set[str]:
    return set(_says(host, VERSION).split())


def test_modprobe_unloads_and_loads_the_driver(host: Host) -> None:
    _says(host, "modprobe -r nvidia")

    assert host.run(LOADED).returncode != 0
    assert host.run("nvidia-smi").returncode != 0
    _says(host, "modprobe nvidia NVreg_EnableMSI=1")
    assert "545.29.06" in _says(host, LOADED)
    _says(host, "modprobe -r nvidia_uvm")
    assert _versions(host) == {"545.29.06"}
    _says(host, "modprobe -r nvidia-drm nvidia && modprobe -v nvidia-uvm")
    assert _versions(host) == {"545.29.06"}
    _says(host, "modprobe -r nvidia && modprobe -i nvidia-current && modprobe nouveau")
    assert _versions(host) == {"545.29.06"}


def test_everything_else_is_the_real_modprobe(host: Host) -> None:
    assert "kmod version" in _says(host, "modprobe --version")
    assert "install nvidia " in _says(host, "modprobe -c")
    _says(host, "modprobe -rn nvidia && modprobe --dry-run -r nvidia && modprobe -nv nvidia")
    assert "modprobe -i nvidia-current" in _says(host, "modprobe --show-depends nvidia")
    missing = host.run("modprobe no-such-module")
    assert missing.returncode == 1
    assert "Module no-such-module not found" in missing.stderr
    assert "545.29.06" in _says(host, LOADED)
    assert "not permitted" in host.run("/usr/sbin/modprobe nvidia", user="rig").stderr


def test_a_version_that_no_suite_has_is_refused_and_changes_nothing(host: Host) -> None:
    before = _says(host, PACKAGES)

    with pytest.raises(LabError, match=r"535\.183\.01, 535\.261\.03, 545\.29\.06, 550\.163\.01"):
        host.set("driver=535.1.1")

    assert _says(host, PACKAGES) == before
    assert _versions(host) == {"545.29.06"}
    assert host.record.settings == {}


def test_another_driver_runs_without_a_reboot(host: Host) -> None:
    boot, sources = _says(host, BOOT_ID), _says(host, "cat /etc/apt/sources.list.d/*")
    _says(host, "apt-mark hold nvidia-driver libcuda1")

    host.set("driver=535.261.03")

    assert _versions(host) == {"535.261.03"}
    assert "535.261.03" in _says(host, LOADED)
    assert "545.29.06" not in _says(host, "dpkg-query -W; dkms status")
    assert "nvidia" not in _says(host, "ls /run /etc/apt/preferences.d; apt-mark showhold")
    assert _says(host, "cat /etc/apt/sources.list.d/*") == sources
    assert (_says(host, BOOT_ID), host.record.settings) == (boot, {"driver": "535.261.03"})


def test_no_driver_leaves_no_package_and_a_driver_can_come_back(host: Host) -> None:
    host.set("driver=none")

    assert "nvidia" not in _says(host, "dpkg-query -W")
    assert host.run(LOADED).returncode != 0
    assert host.run("modprobe nvidia").returncode != 0
    host.set("driver=")
    assert _versions(host) == {"545.29.06"}


def test_ubuntu_gets_the_real_535_and_another_branch_after_it(lab: Lab) -> None:
    host = lab.one("ubuntu-trap", "pocket=off")

    for version in ("535.171.04", "580.178.04"):
        host.set(f"driver={version}")
        assert _versions(host) == {version}
        assert version in _says(host, LOADED)
    host.set("driver=none")
    assert "nvidia" not in _says(host, "dpkg-query -W")
