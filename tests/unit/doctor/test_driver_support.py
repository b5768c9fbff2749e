"""How long a driver gets fixes, and which one the next boot brings."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import changed_from, checks_of, judge, spec
from tests.unit.doctor.module_rigs import KERNEL, NEXT, modinfo
from tests.unit.probe import answers

DRIVER = "535.261.03"
MENU = f"== grep linux /boot/grub/grub.cfg\n\tlinux\t/vmlinuz-{NEXT} root=UUID=1234 ro\n"
NONE = f"== modinfo -k {NEXT} nvidia\nmodinfo: ERROR: Module nvidia not found.\n"
SAME = MENU.replace(NEXT, KERNEL)


def statuses(check: str, *, driver: str | None = None, **changed: str | None) -> list[str]:
    base = {
        "pci": answers.PCI,
        "uname": answers.UNAME,
        "nvidia-version": answers.VERSION.format(DRIVER),
        "bootloader": MENU,
    }
    declared = spec(driver=driver) if driver else None
    found = judge(changed_from(base, changed), declared, checks=checks_of(check))
    return [one.status for one in found]


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("580.178.04", "ok"),
        ("620.70.06", "ok"),
        ("545.29.06", "info"),
        ("123.45", "unknown"),
    ],
)
def test_the_end_of_a_branch(version: str, status: str) -> None:
    assert statuses("drv.eol", nvidia_version=answers.VERSION.format(version)) == [status]


def test_the_end_of_a_branch_without_a_driver() -> None:
    assert statuses("drv.eol", nvidia_version=None) == ["unknown"]
    assert statuses("drv.eol", nvidia_version="") == ["skipped"]


@pytest.mark.parametrize(
    ("modules", "status"),
    [
        (modinfo(KERNEL) + modinfo(NEXT), "ok"),
        (modinfo(KERNEL) + modinfo(NEXT, version="595.91.07"), "warn"),
        (modinfo(KERNEL), "unknown"),
        (modinfo(KERNEL) + NONE, "skipped"),
        (None, "unknown"),
    ],
)
def test_the_driver_of_the_kernel_that_boots_next(modules: str | None, status: str) -> None:
    assert statuses("drv.next_boot", nvidia_modinfo=modules) == [status]


def test_the_declared_driver_counts() -> None:
    other = modinfo(NEXT, version="595.91.07")

    assert statuses("drv.next_boot", driver="595", nvidia_modinfo=other) == ["ok"]
    assert statuses("drv.next_boot", driver="535", nvidia_modinfo=other) == ["warn"]


def test_dkms_counts_where_modinfo_was_not_asked() -> None:
    for version, status in ((DRIVER, "ok"), ("595.91.07", "warn")):
        dkms = f"nvidia/{version}, {NEXT}, x86_64: installed\n"
        assert statuses("drv.next_boot", dkms=dkms) == [status]


def test_the_running_kernel_boots_next() -> None:
    assert statuses("drv.next_boot", bootloader=SAME) == ["skipped"]
    assert statuses("drv.next_boot", bootloader=None) == ["unknown"]
