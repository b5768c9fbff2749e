"""The pin, the blacklist and the modprobe file under real apt and modprobe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver.modprobe import kernel_module, modprobe_file
from rigops.concerns.nvidia_driver.pin import preferences, unattended
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from tests.lab import image
from tests.lab.driver_rig import TOOLS
from tests.lab.packages import FILE, source
from tests.lab.test_lab_packages import KERNEL, LISTS, Tree, candidate
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_DRIVER)

PIN = "etc/apt/preferences.d/rigops-nvidia.pref"
DEBIAN = "535.261.03-1"
UBUNTU = "535.171.04-0ubuntu2"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Tree:
    """A rig with 535.261.03 that nothing holds."""
    tree = Tree(tmp_path_factory.mktemp("rig") / "tree", repository, (image.base(),))
    tree.become(driver="535.261.03")
    return tree


@pytest.fixture
def rig(tmp_path: Path, installed: Tree) -> Tree:
    return Tree(tmp_path / "tree", installed.repository, (installed.upper, *installed.lower))


@pytest.fixture
def bare(tmp_path: Path, repository: Path) -> Tree:
    return Tree(tmp_path / "tree", repository, (image.base(),))


def has_suites(tree: Tree, *suites: str) -> None:
    tree.write(FILE, "\n".join(source("debian", suite) for suite in suites))
    tree.does("apt-get -q update")


def resolution(tree: Tree, version: str) -> Resolution:
    """Every package that the sources have in this version, of the proprietary flavor."""
    said = tree.does("apt-cache pkgnames | xargs apt-cache madison")
    rows = [[word.strip() for word in line.split("|")] for line in said.splitlines()]
    names = sorted({row[0] for row in rows if row[1] == version and "-open-" not in row[0]})
    assert len(names) > 10
    is_ubuntu = version == UBUNTU
    built_from = "nvidia-graphics-drivers-535" if is_ubuntu else "nvidia-graphics-drivers"
    return Resolution(
        version=version.partition("-")[0],
        flavor="proprietary",
        packages=dict.fromkeys(names, version),
        asked=("nvidia-driver-535" if is_ubuntu else "nvidia-driver",),
        sources={built_from: (version,)},
    )


def candidates(tree: Tree, wanted: Resolution) -> set[str]:
    said = tree.does(f"apt-cache policy {' '.join(wanted.packages)}")
    found = [line.split()[1] for line in said.splitlines() if "Candidate:" in line]
    assert len(found) == len(wanted.packages)
    return set(found)


def drivers(installs: dict[str, str], wanted: Resolution) -> dict[str, str]:
    return {name: version for name, version in installs.items() if name in wanted.packages}


def test_newer_suites_change_nothing_of_the_pinned_driver(rig: Tree) -> None:
    wanted = resolution(rig, DEBIAN)
    has_suites(rig, "bookworm", "newer", "newest")
    before = drivers(rig.simulates("full-upgrade"), wanted)
    rig.write(PIN, preferences(wanted))
    upgraded = rig.tries("apt-get -s full-upgrade")

    assert before["libcuda1"] == "580.178.04-1"
    assert upgraded.status == 0
    assert "W:" not in upgraded.said
    assert drivers(upgraded.inst(), wanted) == {}
    assert "Remv " not in upgraded.said
    assert upgraded.inst()["nvidia-modprobe"] == "580.178.04-1"
    assert drivers(rig.simulates("install nvidia-driver"), wanted) == {}
    assert candidates(rig, wanted) == {DEBIAN}
    assert candidate(rig, "nvidia-open-kernel-dkms") == DEBIAN
    assert candidate(rig, "nvidia-settings") == "580.178.04-1"
    assert candidate(rig, "nvidia-persistenced") == "580.178.04-1"


def test_the_tools_of_the_driver_stay_by_the_pin_and_by_the_holds_alone(rig: Tree) -> None:
    said = rig.does(f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(TOOLS)} || true")
    tools = dict(line.split() for line in said.splitlines() if len(line.split()) == 2)
    assert "nvidia-persistenced" in tools
    has_suites(rig, "bookworm", "newer", "newest")
    assert set(rig.simulates("full-upgrade")) >= set(tools)

    rig.write(PIN, preferences(replace(resolution(rig, DEBIAN), beside=tools)))
    pinned = rig.simulates("full-upgrade")
    rig.does(f"rm /{PIN}; apt-mark hold {' '.join(tools)}")
    held = rig.simulates("full-upgrade")

    assert set(tools).isdisjoint(pinned)
    assert set(tools).isdisjoint(held)


def test_a_fresh_install_gets_the_pinned_driver_among_newer_ones(bare: Tree) -> None:
    bare.become()
    wanted = resolution(bare, DEBIAN)
    has_suites(bare, "bookworm", "newer", "newest")
    bare.write(PIN, preferences(wanted))

    installs = drivers(bare.simulates(f"install {' '.join(wanted.packages)}"), wanted)

    assert installs == dict(wanted.packages)
    assert set(drivers(bare.simulates("install nvidia-driver"), wanted).values()) == {DEBIAN}


def test_an_installed_driver_stays_when_its_version_is_gone(rig: Tree) -> None:
    wanted = resolution(rig, DEBIAN)
    has_suites(rig, "newer", "newest")
    rig.write(PIN, preferences(wanted))
    there = rig.does("dpkg-query -W -f '${Package}\\n'").split()
    gone = [name for name in wanted.packages if name not in there]

    upgraded = rig.tries("apt-get -s full-upgrade")

    assert upgraded.status == 0
    assert drivers(upgraded.inst(), wanted) == {}
    assert "Remv " not in upgraded.said
    assert {candidate(rig, name) for name in gone} <= {"(none)"}
    assert candidates(rig, wanted) <= {DEBIAN, "(none)"}
    assert candidate(rig, "libcuda1") == DEBIAN
    assert candidate(rig, "nvidia-open-kernel-dkms") == "(none)"


def test_no_other_driver_is_installed_when_the_version_is_gone(bare: Tree) -> None:
    bare.become()
    wanted = resolution(bare, DEBIAN)
    has_suites(bare, "newer", "newest")
    bare.write(PIN, preferences(wanted))

    for name in ("nvidia-driver", "libcuda1", "nvidia-open-kernel-dkms"):
        done = bare.tries(f"apt-get -s install {name}")
        assert done.status != 0
        assert "has no installation candidate" in done.said
    assert candidates(bare, wanted) == {"(none)"}


def test_a_newer_installed_driver_goes_back_to_the_pinned_one(bare: Tree, installed: Tree) -> None:
    wanted = resolution(installed, DEBIAN)
    bare.become(driver="550.163.01")
    has_suites(bare, "bookworm", "newer")
    bare.write(PIN, preferences(wanted))
    there = bare.does("dpkg-query -W -f '${Package}\\n'").split()
    names = [name for name in wanted.packages if name in there]

    done = bare.tries(f"apt-get -s install {' '.join(names)}")

    assert done.status == 0, done.said
    assert f"Inst libcuda1 [550.163.01-2] ({DEBIAN}" in done.said
    assert set(names) <= set(done.inst())
    assert set(drivers(done.inst(), wanted).values()) == {DEBIAN}


def test_libraries_of_a_second_architecture_are_pinned_too(bare: Tree) -> None:
    bare.become()
    wanted = resolution(bare, DEBIAN)
    bare.write(
        "srv/second/Packages",
        "\n".join(
            f"Package: {name}\nVersion: {version}\nArchitecture: i386\nMulti-Arch: same\n"
            f"Source: nvidia-graphics-drivers\nFilename: {name}_{version}.deb\nSize: 1\n"
            f"SHA256: {'0' * 64}\nDescription: a library\n"
            for name in ("libcuda1", "libnvidia-unheard-of")
            for version in (DEBIAN, "580.178.04-1")
        ),
    )
    bare.write(f"{LISTS}/second.list", "deb [trusted=yes] file:/srv/second ./\n")
    bare.does("dpkg --add-architecture i386; apt-get -q update")
    before = candidate(bare, "libcuda1:i386")
    bare.write(PIN, preferences(wanted))

    assert before == "580.178.04-1"
    assert candidate(bare, "libcuda1:i386") == DEBIAN
    assert candidate(bare, "libnvidia-unheard-of:i386") == DEBIAN


def test_ubuntu_gets_its_real_535_from_the_release_pocket(bare: Tree) -> None:
    bare.become(os="ubuntu", pocket="on")
    wanted = resolution(bare, UBUNTU)
    bare.write(PIN, preferences(wanted))

    installs = bare.simulates("install nvidia-driver-535")

    assert {v for name, v in installs.items() if "nvidia" in name} == {UBUNTU}
    assert candidates(bare, wanted) == {UBUNTU}
    for rival in ("linux-modules-nvidia-535-generic", "nvidia-driver-580", "nvidia-driver-545"):
        assert candidate(bare, rival) == "(none)"


def test_ubuntu_gets_no_driver_at_all_without_the_pocket(bare: Tree, tmp_path: Path) -> None:
    bare.become(os="ubuntu", pocket="on")
    wanted = resolution(bare, UBUNTU)
    without = Tree(tmp_path / "without", bare.repository, (image.base(),))
    without.become(os="ubuntu", pocket="off")
    without.write(PIN, preferences(wanted))

    done = without.tries("apt-get -s install nvidia-driver-535")

    assert done.status != 0
    assert "Inst " not in done.said
    for name in ("nvidia-driver-535", "libnvidia-compute-580", "linux-modules-nvidia-580-generic"):
        assert candidate(without, name) == "(none)"


def test_the_blacklist_joins_that_of_the_distribution(rig: Tree) -> None:
    rig.write(
        "etc/apt/apt.conf.d/50unattended-upgrades",
        'Unattended-Upgrade::Package-Blacklist { "libc6$"; };\n',
    )
    rig.write(
        "etc/apt/apt.conf.d/52rigops-nvidia", unattended(resolution(rig, DEBIAN), kernels=True)
    )

    said = rig.does("apt-config dump Unattended-Upgrade::Package-Blacklist")

    assert 'Package-Blacklist:: "libc6$";' in said
    assert 'Package-Blacklist:: "^libcuda1([^a-z0-9.+-]|$)";' in said
    assert 'Package-Blacklist:: "^(pve|proxmox)-(default-)?(kernel|headers)(-|$)";' in said


def test_modprobe_gives_the_options_to_the_renamed_module(rig: Tree) -> None:
    wanted = resolution(rig, DEBIAN)
    options = (("nvidia", (("NVreg_RegistryDwords", "RMForceStaticBar1=1;A=2"),)),)
    text = modprobe_file(wanted, options, kernel_module(wanted.packages))
    rig.write("etc/modprobe.d/rigops-nvidia.conf", text)

    by_alias = rig.does(f"modprobe -n -v -S {KERNEL} nvidia")
    itself = rig.does(f"modprobe -n -v -i -S {KERNEL} nvidia-current")

    assert "nvidia-current" in by_alias
    assert itself.rstrip().endswith(
        "nvidia-current.ko NVreg_RegistryDwords=RMForceStaticBar1=1;A=2"
    )


@pytest.mark.parametrize("rival", ["nouveau", "lbm-nouveau", "nova", "nova_core"])
def test_modprobe_loads_no_rival_of_the_driver(rig: Tree, rival: str) -> None:
    modules = f"/lib/modules/{KERNEL}"
    rig.does(f"cp {modules}/updates/dkms/nvidia-current.ko {modules}/updates/{rival}.ko")
    rig.does(f"rm -f /etc/modprobe.d/*; depmod {KERNEL}")
    before = rig.does(f"modprobe -n -v -S {KERNEL} {rival}")
    wanted = resolution(rig, DEBIAN)
    rig.write("etc/modprobe.d/rigops-nvidia.conf", modprobe_file(wanted, (), "nvidia-current"))

    after = rig.tries(f"modprobe -n -v -S {KERNEL} {rival}")
    through_an_alias = rig.tries(f"modprobe -n -v -b -S {KERNEL} {rival}")

    assert before.startswith(f"insmod {modules}/updates/{rival}.ko")
    assert "insmod" not in after.said
    assert "insmod" not in through_an_alias.said
