"""The forced reboot, in a tree of its own where every program that it may find is the test's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.hostside.forced import HANGS, UPTIME, Tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LIMITS: Final[Mapping[str, int]] = {"sync": 1000, "remount": 1000, "reset": 1}


class Machine(Tree):
    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name, folders=["run/systemd"], harmless=["grep", "tr"])
        self.command("mount")

    def run(self, seconds: int = 0, **limits: int) -> None:
        self.run_text(self.text("last_resort", {**LIMITS, **limits}), seconds)


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "host", request.param)


def test_with_sysrq_it_syncs_makes_read_only_and_resets(machine: Machine) -> None:
    trigger = machine.sysrq()
    machine.run()

    assert os.read(trigger, 100) == b"s\nu\nb\n"
    assert machine.done == ["sync", "reboot -ff"]  # the last only since this reset did nothing
    os.close(trigger)


def test_without_sysrq_it_remounts_the_root_and_reboots(machine: Machine) -> None:
    machine.run()

    assert machine.done == ["sync", "mount -o remount,ro /", "reboot -ff"]


def test_a_sync_and_a_log_that_hang_do_not_hold_it_up(machine: Machine) -> None:
    for name in ("sync", "mount", "logger"):
        machine.command(name, HANGS)
    machine.run(sync=2, remount=2)

    assert "reboot -ff" in machine.done


@pytest.mark.parametrize("sign", ["file", "environment"])
def test_in_a_container_it_leaves_the_machines_kernel_alone(machine: Machine, sign: str) -> None:
    trigger = machine.sysrq()
    if sign == "file":
        (machine.root / "run/systemd/container").write_text("systemd-nspawn\n")
    else:
        (machine.root / "proc/1/environ").write_bytes(b"PATH=/bin\0container=lxc\0")
    machine.run()

    with pytest.raises(BlockingIOError):
        os.read(trigger, 100)
    assert machine.done == ["sync", "reboot -ff"]
    os.close(trigger)


def test_it_waits_by_the_time_since_boot_and_says_so_in_the_kernel_log(machine: Machine) -> None:
    (machine.root / "dev/kmsg").write_text("")
    late = f"echo {UPTIME + 3600}.50 1.0 >{machine.root}/proc/uptime"
    machine.at_each_sleep(late)  # however short that sleep was
    machine.run(seconds=3600)

    assert machine.done[-1] == "reboot -ff"
    assert "has not come to its end" in (machine.root / "dev/kmsg").read_text()


def test_it_goes_on_where_nothing_tells_the_time(machine: Machine) -> None:
    (machine.root / "proc/uptime").unlink()
    machine.command("sleep")
    machine.run(seconds=3)

    assert "reboot -ff" in machine.done


def test_before_its_time_it_does_nothing(machine: Machine) -> None:
    text = machine.text("last_resort", LIMITS)

    assert machine.done_at(UPTIME + 4, text, 5) == []


def test_a_watchdog_that_nobody_holds_is_opened_and_not_fed(machine: Machine) -> None:
    kmsg = machine.root / "dev/kmsg"
    kmsg.write_text("")
    (machine.root / "dev/watchdog").symlink_to("/dev/null")  # any device
    machine.command("reboot", f"until grep -q 'not fed' {kmsg}; do :; done")
    machine.run()

    assert machine.done[-1] == "reboot -ff"


def test_of_a_program_that_arrives_in_part_nothing_runs(machine: Machine) -> None:
    text = machine.text("last_resort", LIMITS)
    *before, last = text.splitlines()
    assert last == 'last_resort "$@"'
    machine.run_text("\n".join(before), 0)

    assert not (machine.root / "done").exists()
