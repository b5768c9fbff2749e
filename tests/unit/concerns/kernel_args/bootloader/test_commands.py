"""What makes edited files count, run by real shells with stand-ins for the programs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.concerns.kernel_args.bootloader.entries import Kernelstub, SystemdBoot
from rigops.concerns.kernel_args.bootloader.grub import Bls
from rigops.concerns.kernel_args.bootloader.unified import KernelInstall, Mkinitcpio
from rigops.probe.boot_files import Files
from tests.unit import programs
from tests.unit.concerns.kernel_args.bootloader import machines

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = pytest.mark.parametrize("shell", programs.SHELLS)
NOTHING = Files()
MKCONFIG = 'echo "menu with $(cat etc/default/grub)" >"$2"'
CHECK = '! grep -q broken "$1"'


def run(root: Path, shell: str, command: str, **stand_ins: str) -> tuple[int, str, str]:
    """Its exit status, what it said wrong, and the calls of these stand-ins."""
    tools = root / "tools"
    tools.mkdir(exist_ok=True)
    log = root / "log"
    log.write_text("")
    for name, body in stand_ins.items():
        tool = tools / name.replace("_", "-")
        tool.write_text(f'#!/bin/sh\necho "{tool.name} $*" >>{log}\n{body}\n')
        tool.chmod(0o755)
    done = subprocess.run(
        [*programs.shell(shell), "-c",
         f"set -eu\n{machines.below(root, command)}echo all >>{log}\n"],
        cwd=root,
        env={"PATH": f"{tools}:/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )  # fmt: skip
    return done.returncode, done.stderr, log.read_text().replace(str(root), "")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@machines.EACH
def test_every_command_is_portable_shell(name: str, tmp_path: Path) -> None:
    boots = machines.probed(name, tmp_path)
    found = configuration_of(boots)
    assert not isinstance(found, Blocker)
    command = found.command(boots.texts, add=("iommu=pt",), remove=("pci=noaer", "a=b"))

    programs.assert_clean_shell(f"set -eu\n{command}")


@SHELLS
@pytest.mark.parametrize(("folder", "prefix"), [("grub", "grub_"), ("grub2", "grub2_")])
def test_a_menu_is_made_aside_and_then_takes_the_place_of_the_old_one(
    shell: str, folder: str, prefix: str, tmp_path: Path
) -> None:
    write(tmp_path, {"etc/default/grub": "iommu=pt", f"boot/{folder}/grub.cfg": "old"})

    code, said, calls = run(
        tmp_path,
        shell,
        grub.REGENERATE,
        **{f"{prefix}mkconfig": MKCONFIG, f"{prefix}script_check": CHECK},
    )

    assert (code, said) == (0, "")
    assert (tmp_path / f"boot/{folder}/grub.cfg").read_text() == "menu with iommu=pt\n"
    assert [path.name for path in (tmp_path / f"boot/{folder}").iterdir()] == ["grub.cfg"]
    assert calls.endswith("all\n")


@SHELLS
@pytest.mark.parametrize(
    ("mkconfig", "check"), [(MKCONFIG, CHECK), (f"{MKCONFIG}; exit 1", "true")]
)
def test_a_menu_that_is_not_right_never_takes_its_place(
    shell: str, mkconfig: str, check: str, tmp_path: Path
) -> None:
    write(tmp_path, {"etc/default/grub": "broken", "boot/grub/grub.cfg": "old"})

    code, _, calls = run(
        tmp_path, shell, grub.REGENERATE, grub_mkconfig=mkconfig, grub_script_check=check
    )

    assert code != 0
    assert (tmp_path / "boot/grub/grub.cfg").read_text() == "old"
    assert [path.name for path in (tmp_path / "boot/grub").iterdir()] == ["grub.cfg"]
    assert "all" not in calls


@SHELLS
def test_without_room_no_menu_is_begun(shell: str, tmp_path: Path) -> None:
    write(tmp_path, {"etc/default/grub": "", "boot/grub/grub.cfg": "old"})
    full = "printf '%s\\n' 'Filesystem 1024-blocks Used Available' '/dev/sda1 9 9 12 99% /boot'"

    code, said, calls = run(
        tmp_path, shell, grub.REGENERATE, grub_mkconfig=MKCONFIG, grub_script_check=CHECK, df=full
    )

    assert code != 0
    assert "/boot/grub has 12 KiB free, and 64 KiB are needed: make room there" in said
    assert "grub-mkconfig" not in calls


@SHELLS
def test_grubby_changes_all_entries_and_leaves_its_own_file_to_us(
    shell: str, tmp_path: Path
) -> None:
    write(tmp_path, {"boot/x": "", "default": "/boot/vmlinuz-1"})
    grubby = (
        'case $1 in --help) echo "  --no-etc-grub-update" ;; --default-kernel) cat default ;; '
        "--update-kernel=*) echo /boot/vmlinuz-2 >default ;; esac"
    )

    code, said, calls = run(
        tmp_path,
        shell,
        Bls().command(NOTHING, add=("iommu=pt", "a=b"), remove=("c",)),
        grubby=grubby,
    )

    assert (code, said) == (0, "")
    assert calls.splitlines() == [
        "grubby --help",
        "grubby --default-kernel",
        "grubby --update-kernel=ALL --remove-args=c --no-etc-grub-update",
        "grubby --update-kernel=ALL --args=iommu=pt a=b --no-etc-grub-update",
        "grubby --default-kernel",
        "grubby --set-default=/boot/vmlinuz-1",
        "all",
    ]


@SHELLS
def test_an_old_grubby_is_not_asked_for_what_it_does_not_know(shell: str, tmp_path: Path) -> None:
    write(tmp_path, {"boot/x": ""})

    code, _, calls = run(
        tmp_path, shell, Bls().command(NOTHING, add=("iommu=pt",)), grubby="echo /boot/vmlinuz-1"
    )

    assert code == 0
    assert "grubby --update-kernel=ALL --args=iommu=pt\n" in calls
    assert "--set-default" not in calls


@SHELLS
def test_kernelstub_is_told_what_goes_and_what_comes(shell: str, tmp_path: Path) -> None:
    command = Kernelstub().command(NOTHING, add=("iommu=pt", "a=b"), remove=("c",))

    code, _, calls = run(tmp_path, shell, command, kernelstub="true")

    assert code == 0
    assert calls.splitlines() == [
        "kernelstub --delete-options c",
        "kernelstub --add-options iommu=pt a=b",
        "all",
    ]


UKI = "efi/EFI/Linux/arch-linux.efi"
OTHER = "efi/EFI/Linux/other-system.efi"
MAKES = f'echo "MZ $(cat etc/kernel/cmdline)" >{UKI}'


@SHELLS
def test_unified_kernels_are_made_anew_and_looked_at(shell: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        {UKI: "old", OTHER: "theirs", "etc/kernel/cmdline": "ro iommu=pt", "var/tmp/x": ""},
    )

    code, said, calls = run(
        tmp_path, shell, Mkinitcpio().command(NOTHING, add=("iommu=pt",)), mkinitcpio=MAKES
    )

    assert (code, said) == (0, "")
    assert (tmp_path / UKI).read_text() == "MZ ro iommu=pt\n"
    assert calls == "mkinitcpio -P\nall\n"
    assert [path.name for path in (tmp_path / "var/tmp").iterdir()] == ["x"]


@SHELLS
@pytest.mark.parametrize(
    ("makes", "said"),
    [
        (f"{MAKES}; exit 1", "could not be rebuilt"),
        (f"echo half >{UKI}; rm {OTHER}; exit 1", "could not be rebuilt"),
        (f"echo without >{UKI}", "was rebuilt without iommu=pt"),
        ("true", "there is no unified kernel image with iommu=pt"),
    ],
)
def test_unified_kernels_that_are_not_right_are_put_back(
    shell: str, makes: str, said: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        {UKI: "old", OTHER: "theirs", "etc/kernel/cmdline": "ro iommu=pt", "var/tmp/x": ""},
    )

    code, told, calls = run(
        tmp_path, shell, Mkinitcpio().command(NOTHING, add=("iommu=pt",)), mkinitcpio=makes
    )

    assert code != 0
    assert said in told
    assert (tmp_path / UKI).read_text() == "old"
    assert (tmp_path / OTHER).read_text() == "theirs"
    assert "all" not in calls


@SHELLS
def test_only_kernels_that_have_an_image_are_installed_anew(shell: str, tmp_path: Path) -> None:
    write(tmp_path, {
        "efi/EFI/Linux/abc-6.12.9-amd64.efi": "old",
        "efi/EFI/Linux/abc-6.12.48-amd64+3-1.efi": "old",
        "lib/modules/6.12.9-amd64/vmlinuz": "",
        "lib/modules/6.12.48-amd64/vmlinuz": "",
        "lib/modules/6.12.4-amd64/vmlinuz": "",
        "boot/vmlinuz-6.12.9-amd64": "",
        "boot/initrd.img-6.12.9-amd64": "",
        "var/tmp/x": "",
    })  # fmt: skip

    code, said, calls = run(
        tmp_path,
        shell,
        KernelInstall().command(NOTHING, add=("iommu=pt",)),
        kernel_install='for one in efi/EFI/Linux/*; do echo "iommu=pt" >"$one"; done',
    )

    assert (code, said) == (0, "")
    assert calls.splitlines() == [
        "kernel-install add 6.12.48-amd64 /lib/modules/6.12.48-amd64/vmlinuz",
        "kernel-install add 6.12.9-amd64 /boot/vmlinuz-6.12.9-amd64 /boot/initrd.img-6.12.9-amd64",
        "all",
    ]


def test_edited_entries_are_synced_and_no_kernel_is_written_over_itself() -> None:
    path = "/boot/efi/loader/entries/a.conf"
    files = Files({path: "linux /m/6.1/linux\noptions ro\n"})

    assert SystemdBoot().command(files, add=("iommu=pt",)) == "sync /boot/efi/loader/entries\n"
    assert KernelInstall().command(files, add=("iommu=pt",)) == "sync /boot/efi/loader/entries\n"
