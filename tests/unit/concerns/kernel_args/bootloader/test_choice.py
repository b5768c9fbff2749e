from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.probe.sections.bootloader import Bootloader
from tests.unit.concerns.kernel_args.bootloader import machines

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.kernel_args.bootloader.choice import Configuration


def choose(root: Path, name: str, *traces: str, **facts: object) -> Configuration | Blocker:
    """The bootloader of this machine, had it these files and facts too."""
    known = machines.Machine(name, {**machines.machine(name).facts, **facts})
    known.lay_out(root)
    for path in traces:
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return configuration_of(known.look(root))


def refused(found: Configuration | Blocker) -> Blocker:
    assert isinstance(found, Blocker)
    return found


def test_programs_and_their_files_alone_are_no_evidence(tmp_path: Path) -> None:
    traces = ("/etc/kernel/cmdline", "/etc/kernel/install.conf", "/boot/efi/loader/loader.conf")

    assert choose(tmp_path, "debian-12", *traces).__class__.__name__ == "DropIns"


def test_the_package_of_grub_alone_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')

    found = choose(tmp_path, "archinstall", tools=["grub-mkconfig", "bootctl"], loader="")

    assert found.title == "systemd-boot" if not isinstance(found, Blocker) else found.reason


def test_two_that_may_both_start_it_are_refused(tmp_path: Path) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
    tools = ["grub-mkconfig", "bootctl"]

    found = refused(
        choose(tmp_path, "archinstall", "/boot/grub/grub.cfg", tools=tools, loader="", selected="")
    )

    assert "GRUB without drop-ins and systemd-boot" in found.reason
    by_hand = found.by_hand(["iommu=pt"])
    assert "add iommu=pt to GRUB_CMDLINE_LINUX_DEFAULT" in by_hand
    assert "add iommu=pt to the `options` line" in by_hand


@pytest.mark.parametrize(
    ("loader", "title"),
    [("systemd-boot 256.5", "systemd-boot"), ("GRUB 2.12", "GRUB without drop-ins")],
)
def test_the_one_that_told_the_firmware_did_start_it(
    loader: str, title: str, tmp_path: Path
) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
    tools = ["grub-mkconfig", "bootctl"]

    found = choose(tmp_path, "archinstall", "/boot/grub/grub.cfg", tools=tools, loader=loader)

    assert not isinstance(found, Blocker)
    assert found.title == title


@pytest.mark.parametrize(
    ("machine", "trace", "title", "by_hand"),
    [
        ("debian-12", "/etc/NIXOS", "NixOS", "boot.kernelParams"),
        ("fedora", "/run/ostree-booted", "ostree", "rpm-ostree kargs --append-if-missing"),
        ("debian-12", "/etc/kernel/proxmox-boot-uuids", "proxmox", "proxmox-boot-tool refresh"),
        ("arch-uki-drop-ins", "/boot/limine.conf", "Limine", "limine.conf"),
    ],
)
def test_what_is_only_known_by_name_is_refused_with_what_to_do(
    machine: str, trace: str, title: str, by_hand: str, tmp_path: Path
) -> None:
    loader = {"loader": "Limine 8.0"} if title == "Limine" else {}

    found = refused(choose(tmp_path, machine, trace, **loader))

    assert title in found.reason
    assert by_hand in found.by_hand(["iommu=pt"])
    assert "iommu=pt" in found.by_hand(["iommu=pt"])


def test_a_menu_of_another_bootloader_beside_grub_is_refused(tmp_path: Path) -> None:
    found = refused(choose(tmp_path, "debian-12", "/boot/limine.conf"))

    assert "GRUB and Limine" in found.reason


def test_refind_told_the_firmware(tmp_path: Path) -> None:
    found = refused(choose(tmp_path, "archinstall", loader="rEFInd 0.14.2", selected=""))

    assert "rEFInd" in found.reason


def test_entries_without_grubby_are_not_for_grub_without_bls(tmp_path: Path) -> None:
    found = refused(choose(tmp_path, "fedora", tools=["grub2-mkconfig"]))

    assert "grubby is not installed" in found.reason
    assert "install grubby" in found.by_hand(["iommu=pt"])


def test_unified_kernels_beside_entries_are_told_by_what_was_started(tmp_path: Path) -> None:
    entry = tmp_path / "efi/loader/entries/arch.conf"
    entry.parent.mkdir(parents=True)
    entry.write_text("title Arch\nlinux /vmlinuz-linux\noptions root=/dev/sda1\n")

    started = choose(tmp_path, "arch-uki")

    assert not isinstance(started, Blocker)
    assert started.title == "unified kernels of mkinitcpio"


def test_unified_kernels_beside_entries_are_refused_where_nothing_tells(tmp_path: Path) -> None:
    entry = tmp_path / "efi/loader/entries/arch.conf"
    entry.parent.mkdir(parents=True)
    entry.write_text("title Arch\nlinux /vmlinuz-linux\noptions root=/dev/sda1\n")

    assert "more than one" in refused(choose(tmp_path, "arch-uki", selected="")).reason


def test_kernel_install_with_unified_kernels(tmp_path: Path) -> None:
    settings = tmp_path / "etc/kernel/install.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("layout=uki\nuki_generator=ukify\n")
    facts = {**machines.machine("arch-uki").facts, "selected": ""}
    known = machines.Machine("arch-uki", facts)
    known.lay_out(tmp_path)
    (tmp_path / "etc/mkinitcpio.d/linux.preset").unlink()

    found = configuration_of(known.look(tmp_path))

    assert not isinstance(found, Blocker)
    assert found.title == "systemd-boot with kernel-install"


def test_a_machine_of_which_nothing_was_seen_has_none() -> None:
    found = refused(configuration_of(Bootloader()))

    assert "no bootloader" in found.reason
    assert "iommu=pt" in found.by_hand(["iommu=pt"])
