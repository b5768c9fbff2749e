"""What a trial would stand on, asked under every shell of this machine and read from any text."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.kernel_args.trial_boot.conditions import SECTION, BootMount, parse
from rigops.concerns.kernel_args.trial_boot.parts import NoTrial, Trial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare
from tests.unit.concerns.kernel_args.trial_boot.grounds import FIXTURES, RUNNING
from tests.unit.probe.snippets import called, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
PLACES = ("/boot", "/sys/", "/etc/default")
# The real programs would tell of this machine.
PROGRAMS = {
    "grub-probe": "case $1 in *fs) echo ext2 ;; *) echo ;; esac",
    "grub-reboot": "exit 1",
    "df": "echo Filesystem; echo '/dev/x 900 100 800 1% /'",
    "systemctl": "echo 'systemd 252 (252.39-1~deb12u1)'; echo '+PAM'",
    "findmnt": """case $* in
    */boot/efi) echo 'TARGET="/boot/efi" SOURCE="/dev/sda1" FSTYPE="vfat" UUID="4F2A-91C3"' ;;
    *) echo 'TARGET="/" SOURCE="/dev/sda2" FSTYPE="ext4" UUID="7c1d2f0e"' ;;
esac""",
}


def asked(root: Path, shell: str, files: dict[str, str]) -> str:
    tree(root, files)
    folder = root / "programs"
    folder.mkdir()
    for name, body in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    path = f"PATH={folder}:/usr/bin:/bin"
    code, text = run(SECTION, shell, root, *PLACES, commands=path)
    assert code == 0
    return text


@pytest.mark.parametrize("shell", SHELLS)
def test_a_grub_machine_is_seen_and_can_be_tried(shell: str, tmp_path: Path) -> None:
    config = (FIXTURES / "plain.cfg").read_text()
    files = {
        "boot/grub/grub.cfg": config,
        "boot/efi/x": "",
        "sys/class/watchdog/watchdog0/identity": "iTCO_wdt\n",
    }
    found = parse(asked(tmp_path, shell, files))

    assert found.grub is not None
    assert found.grub.config.strip() == config.strip()
    assert (found.grub.folder, found.grub.is_complete) == ("/boot/grub", True)
    assert (found.grub.custom, found.grub.file_system, found.grub.abstractions) == (
        None,
        "ext2",
        (),
    )
    assert found.esps == (
        BootMount(target="/boot/efi", source="/dev/sda1", kind="vfat", uuid="4F2A-91C3"),
    )
    assert (found.systemd, found.free_kib, found.watchdogs) == (252, 800, ("iTCO_wdt",))
    assert "grub-reboot" in found.tools
    assert "grub2-reboot" not in found.tools


@pytest.mark.parametrize("shell", SHELLS)
def test_what_speaks_against_grub_is_seen(shell: str, tmp_path: Path) -> None:
    files = {
        "boot/grub/grub.cfg": "set x=1\npassword_pbkdf2 me grub.pbkdf2.sha512.10000.AB\n",
        "boot/grub/custom.cfg": "menuentry 'mine' {\n}\n",
        "etc/default/grub": "GRUB_ENABLE_BLSCFG=true\n",
    }
    found = parse(asked(tmp_path, shell, files))

    assert found.grub is not None
    assert found.grub.custom == "menuentry 'mine' {"
    assert found.enables_bls
    assert "sha512" not in found.grub.config


@pytest.mark.parametrize("shell", SHELLS)
def test_systemd_boot_and_its_entries_are_seen(shell: str, tmp_path: Path) -> None:
    said = {"LoaderInfo": "systemd-boot 257.13-1", "LoaderEntrySelected": "debian-6.12.conf"}
    variables = {
        f"sys/firmware/efi/efivars/{name}-{VENDOR}": "\6\0\0\0" + "\0".join(f"{value}\0") + "\0"
        for name, value in said.items()
    }
    files = {
        "boot/efi/loader/loader.conf": "default debian-*\n",
        "boot/efi/loader/entries/debian-6.12.conf": "options root=/dev/sda2\n",
    }
    found = parse(asked(tmp_path, shell, variables | files))

    assert (found.loader, found.selected) == ("systemd-boot 257.13-1", "debian-6.12.conf")
    assert found.grub is None
    assert list(found.entries) == ["/boot/efi/loader/entries/debian-6.12.conf"]
    assert list(found.loader_conf) == ["/boot/efi/loader/loader.conf"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_without_any_of_it_gives_a_whole_answer(shell: str, tmp_path: Path) -> None:
    found = parse(asked(tmp_path, shell, {"boot/x": ""}))

    assert found.grub is None
    assert found.entries == {}
    assert not found.unparsed


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ('TARGET="/boot/efi" SOURCE="/dev/nvme0n1p1" FSTYPE="vfat" UUID="4F2A-91C3"', True),
        ('TARGET="/boot/efi" SOURCE="/dev/md0" FSTYPE="vfat" UUID="4F2A-91C3"', False),
        ('TARGET="/boot/efi" SOURCE="/dev/mapper/x" FSTYPE="vfat" UUID="4F2A-91C3"', False),
        ('TARGET="/boot/efi" SOURCE="/dev/sda1" FSTYPE="ext4" UUID="4F2A-91C3"', False),
        ('TARGET="/boot" SOURCE="/dev/sda1" FSTYPE="vfat" UUID="4F2A-91C3"', False),
        ('TARGET="/boot/efi" SOURCE="/dev/sda1" FSTYPE="vfat" UUID=""', False),
        ('TARGET="/boot/efi" SOURCE="systemd-1" FSTYPE="autofs" UUID=""', False),
    ],
)
def test_only_a_partition_of_fat_can_hold_the_order(line: str, is_one: bool) -> None:  # noqa: FBT001 - pytest's
    assert bool(parse(f"== findmnt /boot/efi\n{line}\n").esps) is is_one


def test_no_answer_is_said_to_be_none() -> None:
    assert parse("").unparsed
    prepared = prepare(
        parse(""), running=RUNNING["plain"], add=("iommu=pt",), remove=(), deadline_s=60
    )
    assert isinstance(prepared, NoTrial)


@given(st.text())
def test_any_text_is_read_without_raising(text: str) -> None:
    parse(text)
    found = parse(f"== grub.cfg /boot/grub\n{text}\n== findmnt /boot\n{text}\n== df -Pk\n{text}")
    assert isinstance(
        prepare(found, running=RUNNING["plain"], add=("a",), remove=(), deadline_s=60),
        (NoTrial, Trial),
    )


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "-"],
        input=called(SECTION.snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
