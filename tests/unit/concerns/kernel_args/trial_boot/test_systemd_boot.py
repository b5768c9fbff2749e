"""A trial entry for systemd-boot, which never becomes the default."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.trial_boot.conditions import Conditions
from tests.unit.concerns.kernel_args.trial_boot.grounds import MARKS, reason, trial

if TYPE_CHECKING:
    from rigops.concerns.kernel_args.trial_boot.parts import Trial

FOLDER = "/boot/efi/loader/entries"
DEBIAN = """\
# Boot Loader Specification type#1 entry
title      Debian GNU/Linux 13 (trixie)
version    6.12.48+deb13-amd64
machine-id 6a9857a393724b7a981ebb5b8495b9ea
sort-key   debian
options    root=UUID=1 ro quiet systemd.machine_id=6a9857a393724b7a981ebb5b8495b9ea
linux      /6a98/6.12.48+deb13-amd64/linux
initrd     /6a98/6.12.48+deb13-amd64/initrd.img
"""
ARCH = """\
title Arch
linux /vmlinuz-linux
initrd /initramfs-linux.img
options root=/dev/sda2
options rw
"""
RUNNING = "root=UUID=1 ro quiet systemd.machine_id=6a9857a393724b7a981ebb5b8495b9ea"
GROUND = Conditions(
    loader="systemd-boot 257.13-1~deb13u1",
    selected="debian-6.12.conf",
    entries={f"{FOLDER}/debian-6.12.conf": DEBIAN},
    tools=("bootctl",),
    systemd=257,
)
BY_NAME = replace(
    GROUND,
    selected="arch.conf",
    entries={f"{FOLDER}/arch.conf": ARCH},
    loader_conf={"/boot/efi/loader/loader.conf": "timeout 3\n#default x\ndefault arch.conf\n"},
)


def entry(prepared: Trial) -> str:
    (text,) = re.findall(r"(?m)^[A-Za-z0-9+/=]{40,}$", prepared.arm)
    return b64decode(text).decode()


def test_the_entry_is_the_running_one_with_other_arguments_and_sorts_last() -> None:
    prepared = trial(GROUND, running=RUNNING)

    assert entry(prepared).splitlines()[1:] == [
        "title rigops: new kernel arguments, for one boot",
        "sort-key zzz-rigops",
        "version    6.12.48+deb13-amd64",
        "machine-id 6a9857a393724b7a981ebb5b8495b9ea",
        "linux      /6a98/6.12.48+deb13-amd64/linux",
        "initrd     /6a98/6.12.48+deb13-amd64/initrd.img",
        f"options {RUNNING} iommu=pt {MARKS}",
    ]
    assert f"{FOLDER}/rigops-trial.conf" in prepared.arm
    assert not any(path.startswith("/boot") for path in prepared.files)


def test_initramfs_that_the_loader_names_are_not_named_twice() -> None:
    running = r"initrd=/initramfs-linux.img root=/dev/sda2 rw"
    prepared = trial(BY_NAME, running=running)

    assert f"options root=/dev/sda2 rw iommu=pt {MARKS}\n" in entry(prepared)
    assert "sort-key" not in entry(prepared)


def test_an_entry_whose_boots_are_counted_is_known_by_its_name() -> None:
    counted = replace(GROUND, entries={f"{FOLDER}/Debian-6.12+2-1.conf": DEBIAN})

    trial(replace(counted, selected="debian-6.12.conf"), running=RUNNING)
    trial(replace(counted, selected="debian-6.12+2-1.conf"), running=RUNNING)


@pytest.mark.parametrize("wish", ["arch.conf", "arch*", "ARCH.conf"])
def test_a_default_that_is_not_the_trial_entry_is_enough(wish: str) -> None:
    trial(replace(BY_NAME, loader_conf={}, default=wish), running="root=/dev/sda2 rw")


@pytest.mark.parametrize("wish", ["", "@saved", "*", "r*", "gone.conf"])
def test_a_default_that_could_be_the_trial_entry_means_no_trial(wish: str) -> None:
    conf = {"/boot/efi/loader/loader.conf": f"default {wish}\n"} if wish else {}

    assert "might become it" in reason(
        replace(BY_NAME, loader_conf=conf), running="root=/dev/sda2 rw"
    )


def test_an_older_one_does_not_sort_by_key() -> None:
    assert "might become it" in reason(
        replace(GROUND, loader="systemd-boot 249.11"), running=RUNNING
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selected": "arch-linux.efi"}, "unified kernel image"),
        ({"selected": "auto-windows"}, "does not report which"),
        ({"selected": ""}, "does not report which"),
        ({"tools": ()}, "bootctl"),
        ({"entries": {f"{FOLDER}/debian-6.12.conf": "options x=***"}}, "a secret"),
    ],
)
def test_what_cannot_be_copied_means_no_trial(changes: dict[str, object], words: str) -> None:
    assert words in reason(replace(GROUND, **changes), running=RUNNING)  # type: ignore[arg-type]  # by name
