"""What is sent to have NVIDIA's own uninstaller at work, run in the shells that hosts have."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from rigops.concerns.nvidia_driver.run_file import UNINSTALL
from tests.unit import programs
from tests.unit.programs import SHELLS

VERSION: Final = "550.54.14"


class Machine:
    """`log`: what the uninstaller knows; `does`: what it does with that."""

    def __init__(self, folder: Path, shell: str) -> None:
        self._shell = shell
        self.folder = folder
        (folder / "programs").mkdir()
        (folder / "nvidia").mkdir()
        self.log = folder / "nvidia/log"
        self.brought, self.earlier = folder / "libcuda.so.1", folder / "icd.json"
        for path in (self.brought, self.earlier):
            path.write_text("nvidia\n")
        self.log.write_text(
            f"1.0-5505414 ({VERSION})\nNVIDIA Accelerated Graphics Driver\n"
            f"100: {self.earlier}\n1234 100644 0 0\n1: {self.earlier}\n5678\n"
            f"1: {self.brought}\n91011\n"
        )
        self.has("dpkg", "exit 1")

    def has(self, name: str, does: str) -> Path:
        program = self.folder / "programs" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
        return program

    def uninstalls(self, does: str) -> subprocess.CompletedProcess[str]:
        program = self.has("nvidia-uninstall", does)
        text = UNINSTALL.replace("PATH=", f"PATH={self.folder}/programs:")
        text = text.replace("/var/lib/nvidia", str(self.folder / "nvidia"))
        text = text.replace("/var/lib/dkms", str(self.folder / "dkms"))
        return subprocess.run(
            [*programs.shell(self._shell), "-s"],
            input=f"{text}uninstall {program}\necho goes on\n",
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_one_that_takes_all_away_is_enough(machine: Machine) -> None:
    asked = machine.folder / "asked"
    done = machine.uninstalls(f'echo "$@" >{asked}; rm {machine.log} {machine.brought}')

    assert (done.returncode, done.stderr) == (0, "")
    assert "goes on" in done.stdout
    assert asked.read_text() == "--uninstall --silent\n"


def test_one_that_did_nothing_and_says_0_has_failed(machine: Machine) -> None:
    done = machine.uninstalls("echo; echo 'ERROR: Uninstallation failed.' >&2; exit 0")

    assert done.returncode == 1
    assert "did not remove the driver (exit status 0); see /var/log/nvidia-uninst" in done.stderr
    assert "ERROR: Uninstallation failed." in done.stderr
    assert "goes on" not in done.stdout


def test_one_that_fails_has_failed_though_its_log_is_gone(machine: Machine) -> None:
    done = machine.uninstalls(f"rm {machine.log}; exit 3")

    assert done.returncode == 1
    assert "exit status 3" in done.stderr


def test_without_its_log_it_is_not_even_asked(machine: Machine) -> None:
    machine.log.unlink()
    done = machine.uninstalls(f"touch {machine.folder}/asked")

    assert done.returncode == 1
    assert "with the .run file that it came from" in done.stderr
    assert not (machine.folder / "asked").exists()


def test_what_it_leaves_is_named_and_what_it_puts_back_is_not(machine: Machine) -> None:
    (machine.folder / f"dkms/nvidia/{VERSION}").mkdir(parents=True)
    done = machine.uninstalls(f"rm {machine.log}")

    assert done.returncode == 1
    assert f"\n{machine.brought}\n" in done.stderr
    assert f"/dkms/nvidia/{VERSION}\n" in done.stderr
    assert str(machine.earlier) not in done.stderr


def test_a_link_that_leads_nowhere_is_left_too(machine: Machine) -> None:
    machine.brought.unlink()
    machine.brought.symlink_to("gone")

    assert str(machine.brought) in machine.uninstalls(f"rm {machine.log}").stderr


def test_what_a_package_has_come_to_own_is_in_nobodys_way(machine: Machine) -> None:
    machine.has("dpkg", f'test "$2" = {machine.brought}')

    assert machine.uninstalls(f"rm {machine.log}").returncode == 0


def test_of_many_that_are_left_some_are_named(machine: Machine) -> None:
    many = [machine.folder / f"lib{number}.so" for number in range(9)]
    with machine.log.open("a") as log:
        for path in many:
            path.touch()
            log.write(f"1: {path}\n1\n")

    said = machine.uninstalls(f"rm {machine.log}").stderr

    assert "and 5 more\n" in said
    assert sum(str(path) in said for path in many) < len(many)


def test_it_is_clean_shell() -> None:
    programs.assert_clean_shell(f"{UNINSTALL}uninstall /usr/bin/nvidia-uninstall\n")
