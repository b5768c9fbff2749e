"""Ordering a trial and taking the order back, in a tree of its own with the real grub-editenv."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.trial_boot.conditions import BootMount
from rigops.concerns.kernel_args.trial_boot.parts import DISARM
from tests.unit import programs
from tests.unit.concerns.kernel_args.trial_boot.grounds import ESP, ground, trial
from tests.unit.concerns.kernel_args.trial_boot.test_systemd_boot import GROUND, RUNNING

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.kernel_args.trial_boot.parts import Trial

PLACES = ("/boot", "/efi", "/var/lib/rigops", "/run/rigops", "/etc/grub.d", "/sys/firmware")
EDITOR = shutil.which("grub-editenv")
CHECK = shutil.which("grub-script-check")
KERNEL = "boot/vmlinuz-6.1.0-50-amd64"
ONE_SHOT = "sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

pytestmark = pytest.mark.skipif(EDITOR is None, reason="grub-common is not installed")


@dataclass(frozen=True)
class Machine:
    """Nothing of the real one is touched: every path and every program is in this folder."""

    root: Path
    shell: str
    separate_boot: bool = False

    def __post_init__(self) -> None:
        for folder in ("boot/grub", "boot/efi", "etc/grub.d", "var/lib/rigops", "bin"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "boot/grub/grub.cfg").write_text("menuentry 'old' {\ntrue\n}\n")
        (self.root / KERNEL).touch()
        block = f"{self.root}/boot/grub/grubenv"
        self.program(
            "grub-editenv",
            f'file={block}; case $1 in list) ;; *) [ "$1" = - ] || file=$1; shift ;; esac\n'
            f'exec {EDITOR} "$file" "$@"',
        )
        self.program("grub-reboot", f'exec {EDITOR} {block} set next_entry="$1"')
        self.program("grub-script-check", f'exec {CHECK} "$@"')
        # Of what is in /etc/grub.d, the executable files, as the real one does.
        self.program(
            "grub-mkconfig",
            f"""{{ echo "menuentry 'old' {{"; echo true; echo "}}"
for script in {self.root}/etc/grub.d/*; do [ ! -x "$script" ] || "$script"; done; }} >"$2" """,
        )
        self.program(
            "findmnt",
            f"case $* in *UUID*) echo {ESP.uuid} ;; "
            f"*) {'echo ext4' if self.separate_boot else ':'} ;; esac",
        )
        self.program("fsfreeze")
        self.program("sync")
        self.program("bootctl", f'printf "\\6\\0\\0\\0%s" "$2" >"{self.root}/{ONE_SHOT}"')

    def program(self, name: str, does: str = "") -> None:
        """Never a link: what is written to one is written to the machine's own program."""
        path = self.root / "bin" / name
        assert not path.is_symlink()
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.root}/done"\n{does}\n')
        path.chmod(0o755)

    @property
    def done(self) -> list[str]:
        return (self.root / "done").read_text().splitlines()

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        for place in PLACES:
            for before in (" ", '"', "'", "=", ">"):
                text = text.replace(before + place, f"{before}{self.root}{place}")
        return subprocess.run(
            [*programs.shell(self.shell), "-euc", text],
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
        )

    def lay_out(self, prepared: Trial) -> None:
        for path, file in prepared.files.items():
            target = self.root / path[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode)

    def block(self, path: str = "boot/grub/grubenv") -> str:
        file = self.root / path
        words = [str(EDITOR), str(file), "list"]
        return subprocess.check_output(words, text=True) if file.exists() else ""

    @property
    def menu(self) -> str:
        return (self.root / "boot/grub/grub.cfg").read_text()


@pytest.fixture(params=programs.SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(shell: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "host", shell)


def test_an_order_is_left_and_taken_back(machine: Machine) -> None:
    prepared = trial(ground())
    machine.lay_out(prepared)
    (machine.root / "var/lib/rigops/trial.log").write_text("of the last one")

    armed = machine.run(prepared.arm)
    assert (armed.returncode, armed.stderr) == (0, "")
    assert "next_entry=rigops-trial\n" in machine.block()
    assert not (machine.root / "var/lib/rigops/trial.log").exists()
    assert not any(line.startswith("fsfreeze") for line in machine.done)

    for _ in range(2):
        disarmed = machine.run(DISARM)
        assert (disarmed.returncode, disarmed.stderr) == (0, "")
        assert "next_entry" not in machine.block()


def test_a_boot_of_its_own_is_written_out_after_the_order(shell: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "host", shell, separate_boot=True)
    prepared = trial(ground())
    machine.lay_out(prepared)
    assert machine.run(prepared.arm).returncode == 0

    boot = f"{machine.root}/boot"
    assert machine.done[-2:] == [f"fsfreeze -f {boot}", f"fsfreeze -u {boot}"]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("grub-reboot", "grub-reboot failed"),
        ("grub-script-check", "is no GRUB script"),
        ("fsfreeze", "could not be written out"),
        ("kernel", "is missing"),
    ],
)
def test_what_fails_is_said_and_leaves_no_order(
    shell: str, tmp_path: Path, trouble: str, words: str
) -> None:
    machine = Machine(tmp_path / "host", shell, separate_boot=True)
    prepared = trial(ground())
    machine.lay_out(prepared)
    if trouble == "kernel":
        (machine.root / KERNEL).unlink()
    else:
        machine.program(trouble, "exit 1")
    # Errors end nothing where a script is called in a condition.
    done = machine.run(f"if\n{prepared.arm}then exit 0; else exit 7; fi")

    assert done.returncode == 7
    assert "the trial boot cannot be ordered: " in done.stderr
    assert words in done.stderr
    assert "next_entry" not in machine.block()


def test_an_order_that_did_not_arrive_is_no_order(machine: Machine) -> None:
    prepared = trial(ground())
    machine.lay_out(prepared)
    machine.program("grub-reboot", "exit 0")

    assert "does not have the order" in machine.run(prepared.arm).stderr


def test_beside_a_custom_cfg_the_menu_is_made_anew_and_back(machine: Machine) -> None:
    prepared = trial(ground(custom="# mine"))
    machine.lay_out(prepared)
    before = machine.menu
    armed = machine.run(prepared.arm)
    assert (armed.returncode, armed.stderr) == (0, "")
    assert "--id rigops-trial {" in machine.menu

    assert machine.run(DISARM).returncode == 0
    assert machine.menu == before
    assert machine.run(DISARM).returncode == 0  # the file may be taken away by another step


def test_a_menu_that_cannot_be_made_stays_the_old_one(machine: Machine) -> None:
    prepared = trial(ground(custom="# mine"))
    machine.lay_out(prepared)
    before = machine.menu
    machine.program("grub-mkconfig", 'echo "menuentry {" >"$2"; echo no space >&2')
    done = machine.run(prepared.arm)

    assert done.returncode != 0
    assert "grub.cfg could not be made" in done.stderr
    assert machine.menu == before
    assert [path.name for path in (machine.root / "boot/grub").iterdir()] == ["grub.cfg"]


def test_the_order_lies_on_the_esp_where_grub_can_write(machine: Machine) -> None:
    prepared = trial(ground(file_system="btrfs", esps=(ESP,)))
    machine.lay_out(prepared)
    armed = machine.run(prepared.arm)
    assert (armed.returncode, armed.stderr) == (0, "")
    assert machine.block("boot/efi/rigops/grubenv") == "rigops_next=rigops-trial\n"
    assert not machine.block()

    assert machine.run(DISARM).returncode == 0
    assert not (machine.root / "boot/efi/rigops").exists()


def test_another_esp_than_was_planned_for_is_left_alone(machine: Machine) -> None:
    other = BootMount(target="/boot/efi", kind="vfat", uuid="0000-0001")
    prepared = trial(ground(file_system="btrfs", esps=(other,)))
    machine.lay_out(prepared)

    assert "another file system" in machine.run(prepared.arm).stderr
    assert not (machine.root / "boot/efi/rigops").exists()


def test_systemd_boot_gets_its_entry_and_its_order(machine: Machine) -> None:
    prepared = trial(GROUND, running=RUNNING)
    (machine.root / ONE_SHOT).parent.mkdir(parents=True)
    folder = machine.root / "boot/efi/loader/entries"
    folder.mkdir(parents=True)
    armed = machine.run(prepared.arm)
    assert (armed.returncode, armed.stderr) == (0, "")
    assert "iommu=pt rigops.trial" in (folder / "rigops-trial.conf").read_text()
    assert (machine.root / ONE_SHOT).read_bytes() == b"\6\0\0\0rigops-trial.conf"

    assert machine.run(DISARM).returncode == 0
    assert list(folder.iterdir()) == []
    assert (machine.root / ONE_SHOT).read_bytes() == b"\6\0\0\0"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize(
    "text",
    [
        DISARM,
        trial(ground()).arm,
        trial(ground(custom="")).arm,
        trial(ground(file_system="btrfs", esps=(ESP,))).arm,
        trial(replace(GROUND), running=RUNNING).arm,
    ],
    ids=["disarm", "custom", "script", "esp", "systemd-boot"],
)
def test_shellcheck_has_nothing_to_say(text: str) -> None:
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2317", "-"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
