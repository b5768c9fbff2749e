"""What takes a trial boot back, in a tree of its own where every program is the test's."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rigops.record.trial_boot import events
from tests.unit.hostside.forced import HANGS, UPTIME, Tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BOOT_ID = "6d3c8f4e-0000-4000-8000-000000000001"
# What is waited for takes a moment of this clock, and many where the real machine is busy.
LIMITS: Final[Mapping[str, int]] = {"ask": 1000, "reboot": 2, "remount": 2, "reset": 2}


class Machine(Tree):
    """Its process 1 began 12 s before UPTIME."""

    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(
            root,
            shell_name,
            folders=["proc/sys/kernel/random", "run/rigops", "var/lib/rigops", "boot/grub"],
            harmless=["grep", "tr", "head", "cut"],
        )
        fields = " ".join(["S", *["0"] * 18, f"{UPTIME - 12}00", *["0"] * 30])
        (self.root / "proc/1/stat").write_text(f"1 (a) (init) {fields}\n")
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT_ID}\n")
        (self.root / "dev/kmsg").write_text("")
        (self.root / "boot/grub/grubenv").write_text("")
        for name in ("journalctl", "grub-editenv"):
            self.command(name)
        self.command("systemctl", "case $1 in is-active) echo inactive ;; esac")
        self.command("ip", "echo 'enp5s0 UP 192.168.1.20/24'")

    @property
    def log(self) -> str:
        file = self.root / "var/lib/rigops/trial.log"
        return file.read_text() if file.exists() else ""

    def run(self, deadline_s: int, **limits: int) -> int:
        return self.run_text(self.text("trial", {**LIMITS, **limits}), deadline_s)


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "host", request.param)


def test_at_its_deadline_it_tells_and_reboots(machine: Machine) -> None:
    machine.run(20, reboot=30)

    assert tuple(events(machine.log)) == (
        "its services were started, 12 s after it began",
        "it was not confirmed, and ended itself 20 s after it began",
        "its addresses were enp5s0 192.168.1.20/24",
        "no ssh server ran",
    )
    assert machine.log.startswith(f"reached {BOOT_ID} 12\n")
    done = machine.done
    assert "systemctl --no-pager --failed" in done
    order = [done.index(one) for one in ("grub-editenv - unset next_entry", "sync")]
    order += [done.index("systemctl reboot --force"), done.index("reboot -ff")]
    assert order == sorted(order)
    assert "nobody has confirmed" in (machine.root / "dev/kmsg").read_text()


def test_a_deadline_that_has_passed_already_is_now(machine: Machine) -> None:
    machine.run(5)

    assert "given-up 12\n" in machine.log


def test_a_confirmed_boot_is_left_alone(machine: Machine) -> None:
    (machine.root / "run/rigops/trial-confirmed").touch()

    assert machine.run(5) == 0
    assert "confirmed 12\n" in machine.log
    assert "reboot -ff" not in machine.done


def test_a_confirmation_is_seen_while_it_waits(machine: Machine) -> None:
    machine.at_each_sleep(f": >{machine.root}/run/rigops/trial-confirmed")

    assert machine.run(3600) == 0
    assert "given-up" not in machine.log


def test_before_its_deadline_it_does_nothing(machine: Machine) -> None:
    assert machine.done_at(UPTIME + 7, machine.text("trial", LIMITS), 20) == []


def test_it_writes_once_the_folder_is_there(machine: Machine) -> None:
    folder = machine.root / "var/lib/rigops"
    folder.rmdir()
    machine.at_each_sleep(f'[ "$now" != {UPTIME + 4} ] || {shutil.which("mkdir")} {folder}')
    machine.run(20)

    assert machine.log.startswith(f"reached {BOOT_ID} 1")
    assert machine.log.split()[2] in {"15", "16"}  # before or after that sleep


def test_without_a_folder_it_reboots_all_the_same(machine: Machine) -> None:
    (machine.root / "var/lib/rigops").rmdir()
    machine.run(14, reboot=30)

    assert machine.log == ""
    assert "systemctl reboot --force" in machine.done


def test_what_hangs_does_not_hold_it_up(machine: Machine) -> None:
    for name in ("systemctl", "ip", "journalctl", "sync", "logger", "grub-editenv"):
        machine.command(name, HANGS)
    machine.run(14, ask=2)

    assert "reboot -ff" in machine.done


def test_a_reboot_that_hangs_is_followed_by_the_kernels_own(machine: Machine) -> None:
    trigger = machine.sysrq()
    machine.run(14)

    assert os.read(trigger, 100) == b"s\nu\nb\n"
    os.close(trigger)


def test_in_a_container_it_leaves_the_machines_kernel_alone(machine: Machine) -> None:
    trigger = machine.sysrq()
    (machine.root / "proc/1/environ").write_bytes(b"PATH=/bin\0container=systemd-nspawn\0")
    machine.run(14)

    with pytest.raises(BlockingIOError):
        os.read(trigger, 100)
    assert "reboot -ff" in machine.done
    os.close(trigger)


def test_it_goes_on_where_nothing_tells_the_time(machine: Machine) -> None:
    for name in ("uptime", "1/stat"):
        (machine.root / "proc" / name).unlink()
    machine.command("sleep")
    machine.run(3)

    assert "reboot -ff" in machine.done


def test_no_environment_block_of_grub_is_made(machine: Machine) -> None:
    (machine.root / "boot/grub/grubenv").unlink()
    machine.run(14)

    assert not any(line.startswith("grub-editenv") for line in machine.done)


def test_of_a_program_that_arrives_in_part_nothing_runs(machine: Machine) -> None:
    text = machine.text("trial", LIMITS)
    *before, last = text.splitlines()
    assert last == 'trial "$@"'
    machine.run_text("\n".join(before), 0)

    assert not (machine.root / "done").exists()
