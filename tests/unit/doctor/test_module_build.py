"""Modules for the kernel that runs and for the next one, and what Secure Boot makes of them."""

from __future__ import annotations

import pytest

from rigops.doctor.views import next_boot
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor import module_rigs as rigs
from tests.unit.doctor.examining import spec
from tests.unit.probe import answers

BUILD, HEADERS, SECURE = "drv.dkms", "drv.headers", "drv.secureboot"
ONLY_DKMS = {**rigs.WELL, "nvidia-modinfo": None}
NOT_LOADED = {
    **rigs.WELL,
    "nvidia-version": "",
    "nvidia-smi-xml": None,
    "secure-boot": "SecureBoot enabled\n",
    "pci": answers.PCI.replace("driver=nvidia", "driver=-"),
}
UNFINISHED = rigs.PACKAGES.replace(
    f"nvidia-kernel-dkms\t{rigs.DRIVER}-1\tamd64\tii",
    f"nvidia-kernel-dkms\t{rigs.DRIVER}-1\tamd64\tiF",
)


def test_the_next_kernel_has_no_module() -> None:
    found = rigs.one(rigs.find({**ONLY_DKMS, "dkms": rigs.dkms(rigs.KERNEL)}), BUILD)

    assert found.status == "fail"
    assert "after a reboot" in found.summary
    assert found.data == {"kernels": [rigs.NEXT]}
    assert "vmlinuz-" + rigs.NEXT in found.evidence[0].line


def test_neither_kernel_has_one() -> None:
    found = rigs.one(rigs.find({**ONLY_DKMS, "dkms": rigs.dkms("5.10.0-28-amd64")}), BUILD)

    assert found.data == {"kernels": [rigs.KERNEL, rigs.NEXT]}
    assert found.fix is not None
    assert f"dkms autoinstall -k {rigs.KERNEL}" in found.fix.by_hand


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"dkms": None}, "ok"),
        ({"nvidia-modinfo": None}, "ok"),
        ({"nvidia-modinfo": None, "dkms": None, "packages": None}, "unknown"),
        ({"dkms": None, "nvidia-modinfo": rigs.modinfo(rigs.KERNEL)}, "unknown"),
        ({"dkms": None, "nvidia-modinfo": rigs.modinfo(rigs.NEXT)
          + rigs.without_module(rigs.KERNEL)}, "fail"),
        ({"dkms": "", "nvidia-modinfo": rigs.without_module(rigs.KERNEL)}, "skipped"),
        ({"bootloader": None}, "unknown"),
        ({"nvidia-modinfo": None, "dkms": f"nvidia/535.1, {rigs.KERNEL}, x86_64: built\n"}, "fail"),
        ({"nvidia-modinfo": None, "dkms": "nvidia/535.1: added\n", "uname": None,
          "proc-cmdline": None}, "fail"),
        ({"nvidia-modinfo": None, "dkms": None, "packages": UNFINISHED}, "fail"),
        ({"packages": UNFINISHED}, "ok"),
        ({"nvidia-modinfo": None, "dkms": rigs.dkms(rigs.KERNEL, rigs.NEXT)
          + f"nvidia-current/470.1, {rigs.KERNEL}, x86_64: installed\n"}, "warn"),
    ],
)  # fmt: skip
def test_each_source_alone(changed: dict[str, str | None], status: str) -> None:
    assert rigs.one(rigs.find({**rigs.WELL, **changed}), BUILD).status == status


def test_prebuilt_modules_are_for_the_kernel_in_their_name() -> None:
    line = "linux-modules-nvidia-535-server-open-{}\t5.15.0-91.101\tamd64\tii \n"
    machine = {
        "pci": answers.PCI,
        "uname": rigs.uname("5.15.0-91-generic"),
        "packages": "== dpkg-query -W\n" + line.format("5.15.0-91-generic"),
    }

    assert rigs.one(rigs.find(machine), BUILD).status == "unknown"  # of the next kernel
    newer = {**machine, "uname": rigs.uname("5.15.0-92-generic")}
    assert rigs.one(rigs.find(newer), BUILD).status == "fail"


def test_the_reason_is_named_where_it_is_known() -> None:
    trees, _, _ = rigs.dkms(rigs.KERNEL).partition("== dkms")
    status = "== dkms status\nnvidia/545.29.06: added\n"
    bare = trees.replace(f"/lib/modules/{rigs.KERNEL}/build\n", "")

    built = rigs.one(rigs.find({**ONLY_DKMS, "dkms": trees + status}), BUILD)
    headless = rigs.one(rigs.find({**ONLY_DKMS, "dkms": bare + status}), BUILD)

    assert "does not compile" in built.why
    assert "headers" in headless.why
    assert headless.fix is not None
    assert f"apt-get install linux-headers-{rigs.KERNEL}" in headless.fix.by_hand


def test_a_declared_driver_is_for_apply() -> None:
    machine = {**ONLY_DKMS, "dkms": rigs.dkms(rigs.KERNEL)}

    fix = rigs.one(rigs.find(machine, spec(driver="535")), BUILD).fix
    by_hand = rigs.one(rigs.find(machine, spec(driver="535"), concerns=frozenset()), BUILD).fix

    assert fix is not None
    assert (fix.kind, fix.concern) == ("apply+reboot", "nvidia_driver")
    assert by_hand is not None
    assert "dkms autoinstall" in by_hand.text


def test_a_module_that_differs_from_its_build_is_explained() -> None:
    differing = rigs.dkms(rigs.KERNEL, rigs.NEXT).replace(
        ": installed", ": installed (WARNING! Diff between built and installed module!)"
    )

    found = rigs.one(rigs.find({**rigs.WELL, "dkms": differing}), BUILD)

    assert found.status == "ok"
    assert "signed" in found.why


@pytest.mark.parametrize(
    ("dkms", "status"),
    [
        (rigs.dkms(rigs.KERNEL), "ok"),
        (rigs.dkms(rigs.KERNEL).replace(f"/lib/modules/{rigs.NEXT}/build\n", ""), "warn"),
        (rigs.dkms(rigs.KERNEL).partition("== dkms")[0], "skipped"),
        (f"nvidia/535.1, {rigs.KERNEL}, x86_64: installed\n", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_headers(dkms: str | None, status: str) -> None:
    assert rigs.one(rigs.find({**rigs.WELL, "dkms": dkms}), HEADERS).status == status


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, "fail"),  # nothing was logged, and the module on disk is not signed
        ({"nvidia-version": None, "pci": None}, "unknown"),  # it may be loaded all the same
        ({"nvidia-modinfo": rigs.modinfo(rigs.KERNEL, signer="DKMS module signing key")},
         "unknown"),
        ({"nvidia-modinfo": rigs.modinfo(rigs.KERNEL, signer="x"),
          "kernel-log": rigs.LOCKDOWN}, "fail"),
        ({"nvidia-modinfo": None, "kernel-log": "[    4.100000] nvidia: loading of module with "
          "unavailable key is rejected\n"}, "fail"),
        ({"secure-boot": None, "kernel-log": rigs.LOCKDOWN}, "fail"),
        ({"secure-boot": None}, "unknown"),
        ({"secure-boot": "SecureBoot disabled\n"}, "ok"),
        ({"nvidia-modinfo": rigs.without_module(rigs.KERNEL), "dkms": "nvidia/545.29.06: added\n",
          "kernel-log": rigs.LOCKDOWN}, "info"),
        ({"nvidia-version": answers.VERSION.format(rigs.DRIVER)}, "ok"),
        ({"nvidia-version": answers.VERSION.format(rigs.DRIVER), "secure-boot": None,
          "kernel-log": rigs.LOCKDOWN}, "ok"),
    ],
)  # fmt: skip
def test_secure_boot_fails_with_evidence_only(changed: dict[str, str | None], status: str) -> None:
    assert rigs.one(rigs.find({**NOT_LOADED, **changed}), SECURE).status == status


def test_enrolling_a_key_is_for_hands_at_the_console() -> None:
    fix = rigs.one(rigs.find(rigs.REFUSED, spec(driver="535")), SECURE).fix

    assert fix is not None
    assert fix.kind == "hands"
    assert "mokutil --import" in fix.text
    assert "Enroll MOK" in fix.text


def test_a_tainted_kernel_is_explained_where_secure_boot_is_off() -> None:
    found = rigs.one(rigs.find(rigs.WELL), SECURE)

    assert "harmless" in found.why
    assert any("tainting kernel" in each.line for each in found.evidence)


MENU = answers.GRUB


@pytest.mark.parametrize(
    ("bootloader", "release", "is_certain"),
    [
        (MENU, rigs.NEXT, True),
        (MENU.replace("GRUB_DEFAULT=0", 'GRUB_DEFAULT="Advanced>Debian, with Linux '
                      f'{rigs.KERNEL}"'), rigs.KERNEL, True),
        (MENU.replace("GRUB_DEFAULT=0", "GRUB_DEFAULT=saved"), rigs.NEXT, True),
        (MENU.replace("GRUB_DEFAULT=0", "GRUB_DEFAULT=saved").replace(
            "saved_entry=0", f"saved_entry=gnulinux-{rigs.KERNEL}-advanced-1234"),
         rigs.KERNEL, True),
        (MENU.replace("saved_entry=0", f"next_entry=gnulinux-{rigs.KERNEL}-advanced"),
         rigs.KERNEL, True),
        (MENU.replace("GRUB_DEFAULT=0", 'GRUB_DEFAULT="1>2"'), rigs.NEXT, False),
        ("== ls /boot\nvmlinuz-6.9.0-9-generic\nvmlinuz-6.10.0-2-generic\nvmlinuz-linux\n",
         "6.10.0-2-generic", False),
        (None, rigs.NEXT, False),
    ],
)  # fmt: skip
def test_which_kernel_boots_next(bootloader: str | None, release: str, *, is_certain: bool) -> None:
    texts = {"packages": rigs.PACKAGES} | ({"bootloader": bootloader} if bootloader else {})

    found = next_boot.next_kernel(HostSnapshot(answers.bundle(texts)))

    assert found is not None
    assert (found.release, found.is_certain) == (release, is_certain)


def test_nobody_knows_which_kernel_boots_next() -> None:
    arch = answers.bundle({"bootloader": "== ls /boot\nvmlinuz-linux\n"})

    assert next_boot.next_kernel(HostSnapshot(arch)) is None
    assert next_boot.running(HostSnapshot(arch)) is None


def test_the_running_kernel_is_on_its_command_line_too() -> None:
    known = HostSnapshot(answers.bundle({"proc-cmdline": answers.CMDLINE}))

    assert next_boot.running(known) == rigs.KERNEL
