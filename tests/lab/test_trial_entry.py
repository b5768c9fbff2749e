"""The trial entry on booted hosts: by the real GRUB tools, and once. No operation takes part."""

from __future__ import annotations

import os
import shlex
import time
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.trial_boot.conditions import SECTION, Conditions
from rigops.concerns.kernel_args.trial_boot.parts import DISARM, PROGRAM, Trial
from rigops.concerns.kernel_args.trial_boot.prepare import prepare
from rigops.probe import reading
from rigops.probe.script import script
from rigops.record.trial_boot import CONFIRMED, LOG, MARK, events
from tests.lab import machine
from tests.lab.sshd import until
from tests.shards import LAB_CONCERNS, LAB_FLEET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONCERNS)
slow = pytest.mark.shard(LAB_FLEET)

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
DEADLINE_S = 40  # time to look at it on a machine with other work
CUSTOM = "/boot/grub/custom.cfg"
SCRIPT = "/etc/grub.d/42_rigops-trial"


@pytest.fixture(scope="module")
def booted(module_lab: Lab) -> Host:
    host = module_lab.one(f"threadripper-3x3090=trial-entry-{os.getpid()}")
    _says(host, "mkdir -p /var/lib/rigops")
    return host


@pytest.fixture
def host(booted: Host) -> Iterator[Host]:
    """Runs its old arguments, before and after."""
    assert MARK not in _says(booted, "cat /proc/cmdline")
    yield booted
    _says(booted, DISARM + f"rm -f {CUSTOM} {SCRIPT} {LOG}")


def _says(host: Host, command: str) -> str:
    done = host.run("sh -eus", given=command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def _another_boot(host: Host) -> Iterator[None]:
    before = _says(host, BOOT_ID)
    yield

    def again() -> bool:
        boot = host.run(BOOT_ID)
        return boot.returncode == 0 and boot.stdout.strip() != before

    until(again, "another boot")


def _reboot(host: Host) -> None:
    with _another_boot(host):
        host.run("systemctl reboot")


def _ground(host: Host) -> Conditions:
    bundle = reading.read(host.run("sh -s", given=script([SECTION])).stdout.encode())
    assert bundle is not None
    found = SECTION.parse(bundle.sections[SECTION.name].text)
    assert isinstance(found, Conditions)
    return found


def _trial(host: Host, *add: str, deadline_s: int = 600) -> Trial:
    running = _says(host, "cat /proc/cmdline")
    prepared = prepare(_ground(host), running=running, add=add, remove=(), deadline_s=deadline_s)
    assert isinstance(prepared, Trial), prepared
    return prepared


def _lay_out(host: Host, prepared: Trial) -> None:
    for path, file in prepared.files.items():
        folder = shlex.quote(path.rpartition("/")[0])
        content = b64encode(file.content).decode()
        _says(
            host,
            f"mkdir -p {folder}; echo {content} | base64 -d >{path}; chmod {file.mode:o} {path}",
        )


def _arm(host: Host, prepared: Trial) -> None:
    _lay_out(host, prepared)
    _says(host, prepared.arm)
    assert "next_entry=rigops-trial" in _says(host, "grub-editenv list")


def test_an_argument_is_there_for_one_boot(host: Host) -> None:
    before = _says(host, "cat /proc/cmdline")
    _arm(host, _trial(host, "iommu=pt"))

    _reboot(host)

    tried = _says(host, "cat /proc/cmdline")
    assert tried == f"{before} iommu=pt {MARK} systemd.wants=rigops-trial.service panic=10"
    assert "rigops-trial" not in _says(host, "grub-editenv list")
    assert _says(host, "systemctl is-active rigops-trial.service") == "active"
    assert _says(host, f"cut -d ' ' -f 1,2 {LOG}") == f"reached {_says(host, BOOT_ID)}"

    _reboot(host)

    assert _says(host, "cat /proc/cmdline") == before
    assert host.run("systemctl is-active rigops-trial.service").stdout.strip() == "inactive"


@slow
def test_a_host_that_cannot_be_reached_comes_back_and_says_why(host: Host) -> None:
    before = _says(host, "cat /proc/cmdline")
    _arm(host, _trial(host, "systemd.mask=ssh.service", deadline_s=15))

    _reboot(host)  # twice: nobody can look at the first

    assert _says(host, "cat /proc/cmdline") == before
    story = tuple(events(_says(host, f"cat {LOG}")))
    assert "no ssh server ran" in story
    assert any(text.startswith("it was not confirmed") for text in story)


@slow
def test_a_host_in_emergency_comes_back_too(host: Host) -> None:
    before = _says(host, "cat /proc/cmdline")
    _arm(host, _trial(host, "iommu=pt", deadline_s=DEADLINE_S))
    _reboot(host)
    assert MARK in _says(host, "cat /proc/cmdline")

    with _another_boot(host):
        leader = machine.leader(host.record)
        machine.enter(host.record, leader, "systemctl", "--no-block", "isolate", "emergency.target")

    assert _says(host, "cat /proc/cmdline") == before
    assert any(
        text.startswith("it was not confirmed") for text in events(_says(host, f"cat {LOG}"))
    )


@slow
def test_without_its_program_a_boot_is_taken_back_all_the_same(host: Host) -> None:
    before = _says(host, "cat /proc/cmdline")
    _arm(host, _trial(host, "iommu=pt", deadline_s=DEADLINE_S))
    _says(host, f"rm {PROGRAM}")
    _reboot(host)
    assert MARK in _says(host, "cat /proc/cmdline")

    with _another_boot(host):
        pass

    assert _says(host, "cat /proc/cmdline") == before


@slow
def test_a_confirmed_boot_stays(host: Host) -> None:
    _arm(host, _trial(host, "iommu=pt", deadline_s=DEADLINE_S))
    _reboot(host)
    tried = _says(host, BOOT_ID)

    _says(host, f"mkdir -p /run/rigops; touch {CONFIRMED}")
    state = "systemctl is-active rigops-trial.service"
    until(lambda: "inactive" in host.run(state).stdout, "the end of its watch")
    time.sleep(DEADLINE_S)

    assert _says(host, BOOT_ID) == tried
    assert "confirmed" in _says(host, f"cat {LOG}")
    _reboot(host)


@slow
def test_beside_a_custom_cfg_of_somebody_else_the_menu_is_made_anew_and_back(host: Host) -> None:
    _says(host, f"echo '# mine' >{CUSTOM}; update-grub 2>&1")
    menu, before = _says(host, "cat /boot/grub/grub.cfg"), _says(host, "cat /proc/cmdline")
    prepared = _trial(host, "iommu=pt")
    assert CUSTOM not in prepared.files
    _arm(host, prepared)

    _reboot(host)
    assert "iommu=pt" in _says(host, "cat /proc/cmdline")
    _says(host, DISARM)

    assert _says(host, "cat /boot/grub/grub.cfg") == menu
    assert _says(host, f"cat {CUSTOM}") == "# mine"
    _reboot(host)
    assert _says(host, "cat /proc/cmdline") == before


def test_what_cannot_be_armed_leaves_nothing_armed(host: Host) -> None:
    prepared = _trial(host, "iommu=pt")
    _lay_out(host, prepared)
    done = host.run("sh -eus", given=f"echo 'menuentry {{' >>{CUSTOM}\n{prepared.arm}")

    assert done.returncode != 0
    assert "the trial boot cannot be ordered" in done.stderr
    assert "next_entry=rigops-trial" not in _says(host, "grub-editenv list")


@slow
def test_an_order_that_was_not_used_is_taken_back(host: Host) -> None:
    before = _says(host, "cat /proc/cmdline")
    _arm(host, _trial(host, "iommu=pt"))

    _says(host, DISARM)
    _says(host, DISARM)
    _reboot(host)

    assert _says(host, "cat /proc/cmdline") == before
