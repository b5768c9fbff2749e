"""Machines that a trial boot is prepared for, with their menus in tests/fixtures/grub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rigops.concerns.kernel_args.trial_boot.conditions import BootMount, Conditions, Grub
from rigops.concerns.kernel_args.trial_boot.parts import NoTrial, Trial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare

FIXTURES = Path(__file__).parents[4] / "fixtures/grub"
TOOLS = ("grub-reboot", "grub-editenv", "grub-script-check", "grub-mkconfig", "update-initramfs")
ESP = BootMount(target="/boot/efi", source="/dev/sda1", kind="vfat", uuid="4F2A-91C3")
MARKS = "rigops.trial systemd.wants=rigops-trial.service panic=10"

# What each of the menus' first entries boots into.
RUNNING = {
    "plain": "BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/nvme0n1p2 ro quiet",
    "saved": "BOOT_IMAGE=/boot/vmlinuz-6.1.0-37-amd64 root=/dev/nvme0n1p2 ro amd_iommu=on "
    "pcie_aspm=off quiet",
    "named": "BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/nvme0n1p2 ro quiet",
    "ubuntu": "BOOT_IMAGE=/boot/vmlinuz-6.8.0-60-generic "
    "root=UUID=0c9b2f5e-7d41-4c58-9a7e-3f1f4f6f8a21 ro quiet splash vt.handoff=7",
    "ubuntu-lvm": "BOOT_IMAGE=/boot/vmlinuz-5.15.0-140-generic "
    "root=/dev/mapper/ubuntu--vg-ubuntu--lv ro",
    "debian-luks": "BOOT_IMAGE=/vmlinuz-6.1.0-50-amd64 root=/dev/mapper/rig--vg-root ro quiet "
    '"dyndbg=file drivers/pci/* +p" crashkernel=384M-:128M',
    "debian-btrfs": "BOOT_IMAGE=/@rootfs/boot/vmlinuz-6.12.48+deb13-amd64 "
    "root=UUID=5e0d8c1a-93b4-4d0f-8a1e-6c2f9b7d4e35 ro rootflags=subvol=@rootfs quiet",
}


def grub(name: str, **changes: Any) -> Grub:
    config = (FIXTURES / f"{name}.cfg").read_text()
    return replace(Grub(folder="/boot/grub", config=config, file_system="ext2"), **changes)


def ground(name: str = "plain", *, esps: tuple[BootMount, ...] = (), **changes: Any) -> Conditions:
    """`changes` are those of GRUB's part."""
    found = Conditions(tools=TOOLS, systemd=252, free_kib=200_000, esps=esps)
    return replace(found, grub=grub(name, **changes))


def attempt(found: Conditions, name: str = "plain", **how: Any) -> Trial | NoTrial:
    asked: dict[str, Any] = {"running": RUNNING[name], "add": ("iommu=pt",), "remove": ()}
    return prepare(found, deadline_s=900, **(asked | how))


def trial(found: Conditions, name: str = "plain", **how: Any) -> Trial:
    prepared = attempt(found, name, **how)
    assert isinstance(prepared, Trial), prepared
    return prepared


def reason(found: Conditions, name: str = "plain", **how: Any) -> str:
    prepared = attempt(found, name, **how)
    assert isinstance(prepared, NoTrial)
    return prepared.reason
