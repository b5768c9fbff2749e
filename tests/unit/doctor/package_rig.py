"""An Ubuntu rig with a driver from packages, all of them held, in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.doctor.examining import changed_from, check_of, judge
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

VERSION = "535.183.01"
PACKAGE_VERSION = f"{VERSION}-0ubuntu0.22.04.1"
SOURCE = "nvidia-graphics-drivers-535"
DRIVER = (
    "libnvidia-cfg1-535", "libnvidia-compute-535", "libnvidia-decode-535", "nvidia-dkms-535",
    "nvidia-driver-535", "nvidia-firmware-535-535.183.01", "nvidia-kernel-common-535",
    "nvidia-utils-535", "xserver-xorg-video-nvidia-535",
)  # fmt: skip
OTHERS = (
    ("cuda-toolkit-12-2", "12.2.2-1"), ("dkms", "2.8.7-2ubuntu2.2"), ("libnccl2", "2.19.3-1"),
    ("libnvidia-container1", "1.14.6-1"), ("linux-image-5.15.0-113-generic", "5.15.0-113.123"),
    ("linux-image-generic", "5.15.0.113.113"), ("nvidia-container-toolkit", "1.14.6-1"),
    ("nvidia-settings", "510.47.03-0ubuntu1"), ("unattended-upgrades", "2.8ubuntu1"),
)  # fmt: skip


def installed(
    driver: dict[str, str] | Iterable[str] = DRIVER,
    *,
    status: str = "hi",
    version: str = PACKAGE_VERSION,
    others: Iterable[tuple[str, str]] = OTHERS,
) -> str:
    """As dpkg-query answers; `driver` may give a status of its own to each package."""
    states = dict(driver) if isinstance(driver, dict) else dict.fromkeys(driver, status)
    rows = [f"{name}\t{version}\tamd64\t{state} \t{SOURCE}" for name, state in states.items()]
    rows += [f"{name}\t{number}\tamd64\tii \t{name}" for name, number in others]
    return "== dpkg-query -W\n" + "\n".join(sorted(rows)) + "\n"


UBUNTU = "http://mirror.lan/ubuntu jammy-updates/restricted amd64 Packages"
CUDA = "https://mirror.lan/compute/cuda/repos/ubuntu2204/x86_64  Packages"
RUNS = """\
== apt-config dump Unattended-Upgrade
Unattended-Upgrade "";
Unattended-Upgrade::Allowed-Origins "";
Unattended-Upgrade::Allowed-Origins:: "${distro_id}:${distro_codename}-security";
{blacklist}== apt-config dump APT::Periodic
APT::Periodic "";
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "{daily}";
"""


def policy(candidate: str = PACKAGE_VERSION, place: str = UBUNTU, here: str = UBUNTU) -> str:
    newer = f"     {candidate} 500\n        500 {place}\n" if candidate != PACKAGE_VERSION else ""
    return "== apt-cache policy\n" + "".join(
        f"{name}:\n  Installed: {PACKAGE_VERSION}\n  Candidate: {candidate}\n  Version table:\n"
        f"{newer} *** {PACKAGE_VERSION} 500\n        500 {here}\n"
        "        100 /var/lib/dpkg/status\n"
        for name in DRIVER[:4]
    )


def holds(
    *held: str,
    pins: str = "",
    blacklist: Iterable[str] = (),
    daily: str = "1",
    run_files: str = "",
    origins: str | None = None,
) -> str:
    entries = "".join(
        f'Unattended-Upgrade::Package-Blacklist:: "{regex}";\n' for regex in blacklist
    )
    upgrades = RUNS.replace("{blacklist}", entries).replace("{daily}", daily)
    lines = "".join(f"{name}\n" for name in held)
    return (
        f"== apt-mark showhold\n{lines}{pins}{upgrades}== grep versionlock IgnorePkg exclude\n"
        f"== ls /usr/bin/nvidia-uninstall\n{run_files}" + (policy() if origins is None else origins)
    )


BOOT = answers.BOOT.split("== /run")[0] + "== systemd-detect-virt\nnone\n"
UNAME = "Linux rig 5.15.0-113-generic #123-Ubuntu SMP x86_64 GNU/Linux\n"
GRUB = """\
== /etc/default/grub
GRUB_DEFAULT=0
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""

== command -v update-grub grub-mkconfig grub2-mkconfig grubby bootctl kernel-install
/usr/sbin/update-grub
== grep linux /boot/grub/grub.cfg
\tlinux\t/boot/vmlinuz-5.15.0-113-generic root=UUID=1234 ro quiet
== ls /boot
vmlinuz-5.15.0-113-generic
"""
WELL = {
    **answers.BROKEN,
    "uname": UNAME,
    "boot": BOOT,
    "nvidia-version": answers.VERSION.format(VERSION),
    "bootloader": GRUB,
    "packages": installed(),
    "package-holds": holds(*DRIVER),
}


def look(
    check: str,
    declared: RigSpec | None = None,
    *,
    cut: Collection[str] = (),
    sections: Mapping[str, str | None] | None = None,
    **changed: str | None,
) -> Finding:
    """`cut`: names of sections that ended before their time."""
    texts = changed_from({**WELL, **(sections or {})}, changed)
    codes = dict.fromkeys(cut, 124)
    (found,) = judge(texts, declared, checks=[check_of(check)], codes=codes)
    return found
