from __future__ import annotations

import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError, exact
from rigops.probe.sections.bootloader import MENU_LINES, SECTION, parse
from tests.unit.concerns.kernel_args.bootloader import machines

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = "/boot/loader/entries/a.conf"


def answer(seen: str, real: bytes) -> str:
    return f"== {ENTRY}\n{seen}\n== sha256sum\n{sha256(real).hexdigest()}  {ENTRY}\n"


@machines.EACH
def test_files_are_read_byte_for_byte(name: str, tmp_path: Path) -> None:
    boots = machines.probed(name, tmp_path)

    assert not boots.texts.inexact
    assert not boots.unparsed
    for path in boots.texts:
        if path.endswith((".conf", "cmdline", ".cfg", "grub")):
            real = (machines.FOLDER / name / "tree" / path.lstrip("/")).read_bytes()
            assert boots.texts[path].encode() == real


def test_the_menu_has_no_entries_of_other_systems_and_none_by_hand(tmp_path: Path) -> None:
    """Their kernels lack our arguments for ever."""
    ours = "\tlinux\t/vmlinuz-6.1.0-40-amd64 root=/dev/sda1 ro iommu=pt\n"
    other = "\tlinux\t/boot/vmlinuz-6.8.0 root=/dev/sdb1\n"
    blocks = (("10_linux", ours), ("30_os-prober", other), ("40_custom", other))
    menu = "".join(
        f"### BEGIN /etc/grub.d/{name} ###\nmenuentry 'x' {{\n{line}}}\n"
        f"### END /etc/grub.d/{name} ###\n"
        for name, line in blocks
    )
    (tmp_path / "grub.cfg").write_text(menu)

    said = subprocess.run(
        ["sh", "-c", f"{MENU_LINES} {tmp_path}/grub.cfg"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == ours


def test_a_digest_tells_how_lines_ended() -> None:
    boots = parse(answer("title x\noptions a\n", b"title x\r\noptions a\r\n"))

    assert exact(boots.texts, ENTRY) == "title x\r\noptions a\r\n"


@pytest.mark.parametrize(
    ("seen", "real"),
    [
        ("options a=***\n", b"options a=secret\n"),
        ("options a\n", b"options a\r\n\n"),
        ("cat: /boot/loader/entries/a.conf: Permission denied\n", b"options a\n"),
    ],
)
def test_what_is_not_all_of_a_file_is_not_for_editing(seen: str, real: bytes) -> None:
    files = parse(answer(seen, real)).texts

    assert files[ENTRY] == seen
    with pytest.raises(CannotEditError):
        exact(files, ENTRY)


def test_a_file_whose_digest_could_not_be_made_is_not_for_editing() -> None:
    assert parse(f"== {ENTRY}\noptions a\n== sha256sum\n").texts.inexact == {ENTRY}


def test_an_answer_without_digests_is_taken_as_it_is() -> None:
    assert exact(parse(f"== {ENTRY}\noptions a\n").texts, ENTRY) == "options a"


def test_what_the_bootloader_told_the_firmware_is_read(tmp_path: Path) -> None:
    boots = machines.probed("archinstall", tmp_path)

    assert boots.loader == "systemd-boot 256.5-1-arch"
    assert boots.selected == "2024-09-01_12-00-00_linux.conf"


def test_the_menu_of_grub2_is_read_too(tmp_path: Path) -> None:
    known = machines.machine("arch-grub")
    known.lay_out(tmp_path)
    (tmp_path / "boot/grub").rename(tmp_path / "boot/grub2")

    boots = known.look(tmp_path)

    assert boots.menu_path == "/boot/grub2/grub.cfg"
    assert boots.menu is not None
    assert "loglevel=3" in boots.menu[0].arguments


def test_the_snippet_asks_nothing_that_takes_its_time() -> None:
    slow = ("grub-probe", "bootctl is-installed", "findmnt", "os-prober", "lsblk", "blkid")

    assert not [one for one in slow if one in SECTION.snippet.replace(MENU_LINES, "")]
