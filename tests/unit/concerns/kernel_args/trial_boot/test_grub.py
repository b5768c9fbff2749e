"""A trial entry for GRUB: right for its own grammar, and started once by the lab's small GRUB."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.kernel_args.bootloader import grub_menu
from rigops.concerns.kernel_args.trial_boot.parts import HEADER
from tests.lab.silicon.rigsim import grub_environment
from tests.lab.silicon.rigsim.grub import Grub as Firmware
from tests.unit import programs
from tests.unit.concerns.kernel_args.trial_boot.grounds import (
    ESP,
    FIXTURES,
    MARKS,
    RUNNING,
    TOOLS,
    ground,
    grub,
    reason,
    trial,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.kernel_args.trial_boot.parts import Trial

CUSTOM = "/boot/grub/custom.cfg"
SCRIPT = "/etc/grub.d/42_rigops-trial"
WRITABLE = ("plain", "saved", "named", "ubuntu", "debian-luks")
EMPTY_BLOCK = "# GRUB Environment Block\n".ljust(1024, "#")

needs_grub = pytest.mark.skipif(
    shutil.which("grub-script-check") is None, reason="grub-common is not installed"
)


def machine(root: Path, name: str, prepared: Trial, *, esp: bool = False) -> Path:
    """A tree that GRUB would start, with the trial's entry; the block that is to hold the order."""
    grub_folder = root / "boot/grub"
    grub_folder.mkdir(parents=True)
    shutil.copy(FIXTURES / f"{name}.cfg", grub_folder / "grub.cfg")
    (grub_folder / "grubenv").write_text(EMPTY_BLOCK)
    for entry in grub_menu.entries((FIXTURES / f"{name}.cfg").read_text()):
        kernel = root / entry.kernel.lstrip("/")
        kernel.parent.mkdir(parents=True, exist_ok=True)
        kernel.touch()
    (root / CUSTOM[1:]).write_bytes(prepared.files[CUSTOM].content)
    if not esp:
        return grub_folder / "grubenv"
    (root / "etc/rigsim").mkdir(parents=True)
    (root / "etc/rigsim/disk").write_text(f"fs=btrfs\nesp_uuid={ESP.uuid}\n")
    block = root / "boot/efi/rigops/grubenv"
    block.parent.mkdir(parents=True)
    block.write_text(EMPTY_BLOCK)
    return block


@pytest.mark.parametrize("name", WRITABLE)
def test_the_trial_is_what_runs_now_and_a_little_more_and_only_once(
    name: str, tmp_path: Path
) -> None:
    prepared = trial(ground(name), name)
    block = machine(tmp_path, name, prepared)
    before = Firmware(tmp_path).boot()
    # Ubuntu notes each boot, and takes the note back when it has come to its end.
    grub_environment.change(block, {"next_entry": "rigops-trial", "recordfail": None})

    tried, after = Firmware(tmp_path).boot(), Firmware(tmp_path).boot()

    assert tried.command_line == f"{RUNNING[name]} iommu=pt {MARKS}"
    assert not tried.failure
    assert before.title == after.title != tried.title
    assert after == before


@pytest.mark.parametrize(
    "default", ["2", "rigops-trial", "rigops: new kernel arguments, for one boot"]
)
def test_a_default_that_would_be_the_trial_entry_is_not(default: str, tmp_path: Path) -> None:
    prepared = trial(ground())
    machine(tmp_path, "plain", prepared)
    config = tmp_path / "boot/grub/grub.cfg"
    config.write_text(config.read_text().replace('set default="0"', f'set default="{default}"'))

    assert Firmware(tmp_path).boot().command_line == RUNNING["plain"]


def test_on_a_boot_that_grub_cannot_write_the_order_lies_on_the_esp(tmp_path: Path) -> None:
    name = "debian-btrfs"
    prepared = trial(ground(name, esps=(ESP,), file_system="btrfs"), name)
    block = machine(tmp_path, name, prepared, esp=True)
    before = Firmware(tmp_path).boot()
    grub_environment.change(block, {"rigops_next": "rigops-trial"})

    tried, after = Firmware(tmp_path).boot(), Firmware(tmp_path).boot()

    assert tried.command_line == f"{RUNNING[name]} iommu=pt {MARKS}"
    assert after == before
    assert "iommu=pt" not in after.command_line
    assert grub_environment.read(block)["rigops_next"] == ""


def test_an_order_that_grub_cannot_take_back_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "debian-btrfs"
    prepared = trial(ground(name, esps=(ESP,), file_system="btrfs"), name)
    block = machine(tmp_path, name, prepared, esp=True)
    grub_environment.change(block, {"rigops_next": "rigops-trial"})
    monkeypatch.setattr(grub_environment, "change", lambda *_: False)

    assert "iommu=pt" not in Firmware(tmp_path).boot().command_line


@needs_grub
@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("is_on_esp", [False, True])
def test_grub_itself_can_read_the_entry(name: str, tmp_path: Path, is_on_esp: bool) -> None:  # noqa: FBT001 - pytest's
    found = ground(name, esps=(ESP,), file_system="btrfs") if is_on_esp else ground(name)
    file = tmp_path / "custom.cfg"
    file.write_bytes(trial(found, name).files[CUSTOM].content)

    subprocess.run(["grub-script-check", str(file)], check=True)


@needs_grub
@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.cfg")), ids=lambda file: file.stem)
def test_grub_itself_can_read_the_menus_of_these_tests(file: Path) -> None:
    subprocess.run(["grub-script-check", str(file)], check=True)


def test_the_entry_keeps_what_the_kernel_needs_and_never_becomes_the_default() -> None:
    config = grub("ubuntu").config.replace("\trecordfail\n", "\trecordfail\n\tsavedefault\n")
    text = trial(ground("ubuntu", config=config), "ubuntu").files[CUSTOM].content.decode()

    assert text.startswith(f"{HEADER}\nif ")
    assert "--id rigops-trial {" in text
    for kept in ("\trecordfail\n", "\tinsmod ext2\n", "search --no-floppy", "\tinitrd\t/boot/"):
        assert kept in text
    assert "savedefault" not in text
    assert text.count("linux\t") == 1


def test_an_older_kernel_that_runs_is_the_one_that_is_tried() -> None:
    running = RUNNING["plain"].replace("-50-", "-37-")
    text = trial(ground(), running=running).files[CUSTOM].content.decode()

    assert "/boot/vmlinuz-6.1.0-37-amd64 root=" in text
    assert "/boot/initrd.img-6.1.0-37-amd64" in text


def test_a_running_kernel_that_is_gone_gives_way_to_the_first_of_the_same_root() -> None:
    prepared = trial(ground(), running=RUNNING["plain"].replace("-50-", "-11-"))

    assert b"/boot/vmlinuz-6.1.0-50-amd64 root=" in prepared.files[CUSTOM].content
    assert any("vmlinuz-6.1.0-50-amd64 is tried" in text for text in prepared.notices)
    elsewhere = "BOOT_IMAGE=/boot/vmlinuz-6.1.0-11-amd64 root=/dev/sdb1 ro"
    assert (
        reason(ground(), running=elsewhere) == "no entry of its GRUB menu starts the running system"
    )


def test_arguments_that_go_are_not_in_the_trial() -> None:
    running = f"{RUNNING['plain']} pcie_aspm=off"
    text = trial(ground(), running=running, remove=("pcie_aspm=off",)).files[CUSTOM].content

    assert b"pcie_aspm" not in text
    assert b"quiet iommu=pt rigops.trial" in text


def test_a_trial_of_a_trial_has_its_marks_once() -> None:
    running = f"{RUNNING['plain']} a=1 {MARKS}"
    text = trial(ground(), running=running).files[CUSTOM].content.decode()

    assert f"quiet a=1 iommu=pt {MARKS}\n" in text


@pytest.mark.parametrize("first_line", ["menuentry 'mine' {", "", "# Made by rigops"])
def test_a_custom_cfg_of_somebody_else_is_left_alone(first_line: str) -> None:
    prepared = trial(ground(custom=first_line))

    assert CUSTOM not in prepared.files
    assert prepared.files[SCRIPT].mode == 0o755
    assert "trial_menu /boot/grub grub" in prepared.arm
    assert CUSTOM in trial(ground(custom=HEADER)).files


@needs_grub
@pytest.mark.parametrize("shell", programs.SHELLS)
def test_the_script_gives_the_entry_exactly(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(
        trial(ground("debian-luks", custom="mine"), "debian-luks").files[SCRIPT].content
    )
    done = subprocess.run([*programs.shell(shell), str(script)], capture_output=True, check=True)

    entry = trial(ground("debian-luks"), "debian-luks").files[CUSTOM].content
    assert f"{HEADER}\n".encode() + done.stdout == entry


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_system": "btrfs"}, "GRUB cannot write to its /boot (btrfs)"),
        ({"abstractions": ("lvm",)}, "GRUB cannot write to its /boot (ext2 on lvm)"),
        ({"abstractions": ("diskfilter", "mdraid1x")}, "ext2 on diskfilter on mdraid1x"),
        ({"abstractions": ("cryptodisk", "luks2")}, "ext2 on cryptodisk on luks2"),
        ({"file_system": ""}, "an unknown file system"),
        ({"file_system": "f2fs"}, "(f2fs)"),
        ({"is_complete": False}, "could not be read completely"),
    ],
)
def test_a_boot_that_keeps_no_order_has_no_trial(changes: dict[str, object], words: str) -> None:
    assert words in reason(ground(**changes))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("   save_env next_entry\n", "", "does not support an order for one boot"),
        ("menuentry '", "blscfg\nmenuentry '", "BLS"),
        ("set linux_gfx_mode=\n", "set partuuid=3f-02\n", "GRUB_FORCE_PARTUUID"),
        ("set linux_gfx_mode=\n", 'set superusers="me"\n', "asks for a password"),
        (
            "\tlinux\t/boot/vmlinuz-6.1.0-50-amd64",
            "\tlinux\t/boot/vmlinuz\n\tlinux\t/x",
            "no entry",
        ),
        ("Loading initial", "*** initial", "a secret"),
    ],
)
def test_a_menu_that_could_not_do_it_has_no_trial(old: str, new: str, words: str) -> None:
    config = grub("plain").config
    assert old in config
    config = config.replace(old, new)
    if words == "no entry":
        config = config.replace("root=/dev/nvme0n1p2", "root=/dev/sda1")
    assert words in reason(ground(config=config))


def test_an_entry_that_is_open_to_all_stays_so() -> None:
    config = grub("plain").config.replace("set linux_gfx_mode=\n", "set superusers=me\n")
    config = config.replace("--class debian ", "--class debian --unrestricted ")

    assert (
        b"--unrestricted --id rigops-trial {" in trial(ground(config=config)).files[CUSTOM].content
    )


@pytest.mark.parametrize("tool", ["grub-reboot", "grub-editenv", "grub-script-check"])
def test_each_tool_is_needed(tool: str) -> None:
    less = replace(ground(), tools=tuple(one for one in TOOLS if one != tool))

    assert reason(less) == f"there is no {tool}"


def test_a_full_boot_has_no_trial() -> None:
    assert "less than 1 MiB" in reason(replace(ground(), free_kib=100))
    assert "less than 1 MiB" in reason(replace(ground(), free_kib=None))


def test_a_kernel_that_grub_did_not_start_has_no_trial() -> None:
    running = RUNNING["plain"].partition(" ")[2]

    assert reason(ground(), running=running) == "the running kernel was not started by GRUB"


@pytest.mark.parametrize(("name", "seconds"), [("plain", 60), ("ubuntu", 60), ("debian-luks", 10)])
def test_the_wait_at_the_menu_of_both_boots_is_counted(name: str, seconds: int) -> None:
    assert trial(ground(name), name).extra_wait_s == seconds


def test_a_menu_that_waits_for_a_key_is_said() -> None:
    config = grub("ubuntu").config.replace("set timeout=30", "set timeout=-1")
    prepared = trial(ground("ubuntu", config=config), "ubuntu")

    assert any("timeout=-1" in text for text in prepared.notices)


words_of_kernels = st.text("ab=.,:/+@%-'*?[]{}$;#|&<>()~! ", min_size=1, max_size=12).filter(
    lambda text: text.strip() == text
)


@given(st.lists(words_of_kernels, max_size=5))
def test_an_argument_of_any_letters_is_one_word_for_grub(arguments: list[str]) -> None:
    line = " ".join(map(grub_menu.word, arguments))
    config = f"menuentry 'x' {{\n\tlinux /vmlinuz {line}\n}}\n"
    (entry,) = grub_menu.entries(config)

    kept = tuple(one for one in arguments if not one.startswith("$"))
    assert entry.arguments == kept


@given(st.text("menuentry submenu{}'\"\\\n;#$ linux /x", max_size=60))
def test_any_text_is_read_without_raising(text: str) -> None:
    grub_menu.entries(text)


def test_entries_of_submenus_are_found_and_recovery_is_known() -> None:
    entries = grub_menu.entries(grub("ubuntu").config)

    assert [entry.is_recovery for entry in entries] == [False, False, True, False, True]
    assert {entry.kernel for entry in entries} == {
        "/boot/vmlinuz-6.8.0-60-generic",
        "/boot/vmlinuz-6.8.0-45-generic",
    }
