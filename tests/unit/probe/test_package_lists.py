"""Packages as each distribution lists them, and what keeps or changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe import package_names
from rigops.probe.sections import boot, package_holds, packages
from tests.unit.doctor import package_rig
from tests.unit.probe import answers
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

WIDE = """\
$ dpkg -l | grep nvidia
Desired=Unknown/Install/Remove/Purge/Hold
| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend
|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)
||/ Name                        Version                      Architecture Description
+++-===========================-============================-============-=====================
hi  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1  amd64        NVIDIA libcompute package
ii  libnvidia-compute-535:i386  535.183.01-0ubuntu0.22.04.1  i386         NVIDIA libcompute package
rc  nvidia-driver-435           455.38-0ubuntu0.20.04.1      amd64        Transitional package
un  nvidia-driver-430           <none>                       <none>       (no description available)
"""
NARROW = """\
||/ Name           Version      Architecture Description
+++-==============-============-============-=================================
ii  libnvidia-comp 535.183.01-0 amd64        NVIDIA libcompute package
ii  nvidia-smi     535.183.01-1 amd64        NVIDIA System Management Interface
ii  dkms           2.8.7-2      all          Dynamic Kernel Module Support
"""


def test_a_table_of_dpkg() -> None:
    found = packages.parse(WIDE)

    assert [(one.name, one.architecture, one.status) for one in found.packages[:3]] == [
        ("libnvidia-compute-535", "amd64", "hi"),
        ("libnvidia-compute-535", "i386", "ii"),
        ("nvidia-driver-435", "amd64", "rc"),
    ]
    assert [one.name for one in found.driver] == ["libnvidia-compute-535"] * 2
    assert found.packages[0].is_held
    assert found.managers == {"dpkg"}


# Of a terminal with 100 columns: the second package is libnvidia-compute-535:amd64.
CUT = """\
||/ Name                 Version            Architecture Description
+++-====================-==================-============-===========================================
ii  dkms                 3.0.10-8+deb12u1   all          Dynamic Kernel Module System (DKMS)
ii  libnvidia-compute-53 535.183.01-1~deb12 amd64        NVIDIA libcompute package with CUDA and Ope
ii  nvidia-driver        535.183.01-1       amd64        NVIDIA metapackage that needs all of the dr
ii  nvidia-kernel-comm   535.183.01-1       amd64        NVIDIA binary kernel module support files,
"""


def test_a_terminal_of_any_width_cuts_columns() -> None:
    found = packages.parse(CUT)
    short = {line: line[:80] for line in CUT.splitlines()[3:5]}
    whole = packages.parse("\n".join(short.get(line, line) for line in CUT.splitlines()))

    assert [one.name for one in found.packages] == ["dkms", "nvidia-driver", "nvidia-kernel-comm"]
    assert [line.split()[1] for line in found.unparsed] == ["libnvidia-compute-53"]
    assert len(whole.packages) == 4


def test_a_name_that_fills_its_column_may_have_lost_its_end() -> None:
    found = packages.parse(NARROW)

    assert [one.name for one in found.packages] == ["dkms"]
    assert [line.split()[1] for line in found.unparsed] == ["libnvidia-comp", "nvidia-smi"]


@pytest.mark.parametrize("head", ["", "== pacman -Q\n"])
def test_pacman(head: str) -> None:
    found = packages.parse(f"{head}nvidia-utils 580.95.05-1\r\nlinux-lts 1:6.12.1-1\r\n")

    assert [(one.name, one.version) for one in found.packages] == [
        ("nvidia-utils", "580.95.05-1"),
        ("linux-lts", "1:6.12.1-1"),
    ]
    assert [one.name for one in found.driver] == ["nvidia-utils"]
    assert found.managers == {"pacman"}


def test_rpm() -> None:
    found = packages.parse("== rpm -qa --qf\nakmod-nvidia\t580.95.05-1.fc42\tx86_64\nrubbish\n")

    assert [(one.name, one.architecture) for one in found.packages] == [("akmod-nvidia", "x86_64")]
    assert found.unparsed == ("rubbish",)
    assert found.managers == {"rpm"}


def test_a_row_of_dpkg_that_was_cut_is_no_package_of_another_manager() -> None:
    found = packages.parse("== dpkg-query -W\nnvidia-driver-535 535.183.01-1\nnvidia-dkms\t53")

    assert not found.packages
    assert len(found.unparsed) == 2


def test_the_source_package_where_dpkg_tells_it() -> None:
    told, untold = (
        packages.parse(f"libcuda1\t535.183.01-1\tamd64\tii \t{end}".rstrip("\t")).packages[0]
        for end in ("nvidia-graphics-drivers\n", "")
    )

    assert (told.source, untold.source) == ("nvidia-graphics-drivers", None)


def test_names_of_the_driver_and_of_others() -> None:
    of_the_driver = {
        "nvidia-driver-535", "nvidia-driver-580-open", "nvidia-headless-535-server", "nvidia-open",
        "libnvidia-compute-535", "libnvidia-ml1", "libcuda1", "libnvcuvid1", "nvidia-kernel-dkms",
        "nvidia-cuda-mps", "xserver-xorg-video-nvidia", "xserver-xorg-video-nvidia-535",
        "cuda-drivers", "cuda-drivers-535", "linux-modules-nvidia-535-generic-hwe-22.04",
        "linux-objects-nvidia-535-6.8.0-45-generic", "firmware-nvidia-gsp", "nvidia-utils",
        "nvidia-firmware-535-535.183.01", "libgl1-nvidia-glvnd-glx", "akmod-nvidia", "nvidia",
        "nvidia-fabricmanager-535", "nvidia-tesla-535-driver",
    }  # fmt: skip
    others = {
        "cuda-toolkit-12-2", "nvidia-cuda-toolkit", "nvidia-cuda-dev", "nvidia-container-toolkit",
        "libnvidia-container1", "libnvidia-container-tools", "nvidia-docker2", "nvidia-settings",
        "nvidia-prime", "libnccl2", "nvidia-modprobe", "nvidia-persistenced", "nvidia-cudnn",
        "xserver-xorg-video-nouveau", "nvtop", "libnvidia-egl-wayland1", "cuda-compat-12-2",
        "linux-image-generic", "nvidia-dcgm", "libcudart12",
    }  # fmt: skip

    assert set(filter(package_names.is_driver, of_the_driver | others)) == of_the_driver


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("535.183.01-0ubuntu0.22.04.1", "535.183.01"),
        ("3:580.95.05-1.fc42", "580.95.05"),
        ("570.144-1", "570.144"),
        ("2.8.7-2", None),
        ("535.183.01.02-1", None),
    ],
)
def test_nvidias_version_within_the_distributions(version: str, expected: str | None) -> None:
    assert package_names.driver_version(version) == expected


@pytest.mark.parametrize(
    ("name", "is_meta"),
    [
        ("linux-image-generic", True),
        ("linux-image-generic-hwe-22.04", True),
        ("linux-headers-amd64", True),
        ("linux-image-5.15.0-113-generic", False),
        ("linux-libc-dev", False),
    ],
)
def test_metapackages_of_the_kernel(name: str, *, is_meta: bool) -> None:
    assert package_names.is_kernel_meta(name) is is_meta


def test_policies() -> None:
    text = package_rig.holds(origins=package_rig.policy("580.1.1-1", package_rig.CUDA))

    found = package_holds.parse(text)

    assert found.policies is not None
    one = found.policies[0]
    assert (one.package, one.installed, one.candidate) == (
        "libnvidia-cfg1-535",
        package_rig.PACKAGE_VERSION,
        "580.1.1-1",
    )
    here, coming = one.offer(one.installed), one.offer(one.candidate)
    assert here is not None
    assert coming is not None
    assert here.origins == frozenset({"distribution"})
    assert coming.origins == frozenset({"nvidia"})
    assert not found.unparsed


@pytest.mark.parametrize(
    ("place", "origin"),
    [
        ("http://mirror.lan/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages", "ppa"),
        ("https://mirror.lan/compute/cuda/repos/ubuntu2204/x86_64  Packages", "nvidia"),
        ("https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages", "nvidia"),
        ("file:/var/lib/vault ./ Packages", "local"),
        ("http://deb.lan/debian bookworm/non-free amd64 Packages", "distribution"),
    ],
)
def test_where_a_version_comes_from(place: str, origin: str) -> None:
    found = package_holds.parse(package_rig.policy(here=place)).policies

    assert found is not None
    assert found[0].offers[0].origins == {origin}


@pytest.mark.parametrize(("daily", "runs"), [("1", True), ("7d", True), ("0", False)])
def test_whether_apt_is_to_upgrade_daily(daily: str, *, runs: bool) -> None:
    assert package_holds.parse(package_rig.holds(daily=daily)).unattended_runs is runs


def test_what_is_held_is_read_from_dpkg_as_from_apt() -> None:
    held = ("nvidia-driver-535", "libnvidia-compute-535:i386")
    said = "".join(f"{one}\n" for one in held)

    for head in ("dpkg-query -W held", "apt-mark showhold"):
        found = package_holds.parse(f"== {head}\n{said}")
        assert (found.held, found.asks_apt, found.unparsed) == (held, True, ())


def test_holds_that_were_saved_alone() -> None:
    found = package_holds.parse("nvidia-driver-535\nlibnvidia-compute-535:i386\n")

    assert found.held == ("nvidia-driver-535", "libnvidia-compute-535:i386")
    assert found.asks_apt
    assert not package_holds.parse("E: no such thing\n").asks_apt
    assert package_holds.parse("\x00rubbish").unparsed


def test_a_host_without_apt() -> None:
    found = package_holds.parse(
        "== grep versionlock IgnorePkg exclude\nIgnorePkg = nvidia-utils\n"
        "== ls /usr/bin/nvidia-uninstall\n/usr/bin/nvidia-uninstall\n"
    )

    assert (found.asks_apt, found.policies, found.unattended_runs) == (False, None, None)
    assert found.elsewhere == ("IgnorePkg = nvidia-utils",)
    assert found.run_files == ("/usr/bin/nvidia-uninstall",)


@pytest.mark.parametrize(
    ("said", "virtualization"),
    [
        ("none", "none"),
        ("kvm\r", "kvm"),
        ("vm-other", "vm-other"),
        ("", None),
        ("Failed to check for virtualization: Permission denied", None),
    ],
)
def test_what_the_host_runs_on(said: str, virtualization: str | None) -> None:
    found = boot.parse(f"{answers.BOOT}== systemd-detect-virt\n{said}\n")

    assert found.virtualization == virtualization
    assert found.boot_id is not None


def test_a_host_that_was_not_asked_what_it_runs_on() -> None:
    assert boot.parse(answers.BOOT).virtualization is None


@pytest.mark.parametrize("section", [packages.SECTION, package_holds.SECTION, boot.SECTION])
@pytest.mark.parametrize("shell", SHELLS)
def test_an_empty_host_answers_with_nothing(section: object, shell: str, tmp_path: Path) -> None:
    from rigops.probe.section import Section  # noqa: PLC0415 - to narrow the parameter only

    assert isinstance(section, Section)
    assert ask(section, shell, tmp_path).is_complete
