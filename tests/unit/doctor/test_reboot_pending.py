from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import checks_of
from tests.unit.probe import answers

CHECKS = checks_of("drv.reboot_pending")
PENDING = "drv.reboot_pending"
ASKED = rig.BOOT + "== /run/reboot-required\n*** System restart required ***\n"
OTHER = rig.installed(version="535.216.01-0ubuntu0.22.04.1")
NEXT = "\tlinux\t/boot/vmlinuz-5.15.0-117-generic root=UUID=1234 ro quiet\n"
NEWER_KERNEL = rig.GRUB.replace("\tlinux", NEXT + "\tlinux", 1)
HISTORY = """\
== /var/log/dpkg.log
2024-06-21 06:13:20 upgrade libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 \
535.216.01-0ubuntu0.22.04.1
"""


def test_what_is_installed_runs() -> None:
    assert rig.look(PENDING).status == "ok"


def test_the_distribution_asks() -> None:
    found = rig.look(PENDING, boot=ASKED + "== /run/reboot-required.pkgs\nlinux-base\n")

    assert found.status == "warn"
    assert "linux-base" in found.summary
    assert found.evidence[0].line == "/run/reboot-required"
    assert found.fix is not None
    assert "systemctl reboot" in found.fix.text


def test_libraries_that_are_newer_than_the_loaded_module() -> None:
    found = rig.look(PENDING, packages=OTHER, package_history=HISTORY)

    assert found.status == "warn"
    assert "driver 535.216.01 is installed since 2024-06-21" in found.summary
    assert "535.183.01 is loaded" in found.summary
    assert HISTORY.splitlines()[1] in [one.line for one in found.evidence]


@pytest.mark.parametrize(
    ("bootloader", "status"),
    [
        (NEWER_KERNEL, "warn"),
        (NEWER_KERNEL.replace("GRUB_DEFAULT=0", 'GRUB_DEFAULT="1>2"'), "ok"),
        (NEWER_KERNEL.replace("GRUB_DEFAULT=0", "GRUB_DEFAULT=saved"), "warn"),
        (rig.GRUB.replace("== grep linux", "== cat") + "vmlinuz-5.15.0-117-generic\n", "warn"),
        (rig.GRUB.replace("== grep linux", "== cat") + "vmlinuz-5.15.0-97-generic\n", "ok"),
        ("== ls /boot\nvmlinuz-linux\ninitramfs-linux.img\n", "ok"),
    ],
)
def test_the_kernel_that_boots_next(bootloader: str, status: str) -> None:
    assert rig.look(PENDING, bootloader=bootloader).status == status


def test_a_recovery_entry_is_not_what_boots() -> None:
    recovery = "\tlinux\t/boot/vmlinuz-5.15.0-90-generic root=UUID=1234 ro recovery nomodeset\n"

    found = rig.look(PENDING, bootloader=rig.GRUB.replace("\tlinux", recovery + "\tlinux"))

    assert found.status == "ok"


@pytest.mark.parametrize("lost", ["boot", "packages", "nvidia-version", "uname", "bootloader"])
def test_no_reboot_is_owed_only_where_all_was_read(lost: str) -> None:
    found = rig.look(PENDING, sections={lost: None})

    assert found.status == "unknown"
    assert lost in found.summary
    assert rig.look(PENDING, cut=[lost]).status == "unknown"


def test_no_gpu() -> None:
    alone: dict[str, str | None] = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}

    assert rig.look(PENDING, boot=ASKED, sections=alone).status == "skipped"


@given(
    reason=st.sampled_from(
        [("boot", ASKED), ("packages", OTHER), ("bootloader", NEWER_KERNEL)],
    ),
    section=st.sampled_from(["boot", "packages", "nvidia-version", "uname", "bootloader"]),
    is_lost=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_section_that_is_lost_or_cut_never_pays_the_debt(
    reason: tuple[str, str], section: str, *, is_lost: bool, share: float
) -> None:
    texts: dict[str, str | None] = {reason[0]: reason[1]}
    text = {**rig.WELL, **texts}[section] or ""
    texts[section] = None if is_lost else text[: int(len(text) * share)]

    assert rig.look(PENDING, cut=[section], sections=texts).status in {"warn", "unknown"}
