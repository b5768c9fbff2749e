"""What the kernel says it does not know is named, with what to declare instead."""

from __future__ import annotations

import pytest

from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import spec

IGNORED = "cmdline.ignored"
PLAIN = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1234 ro quiet splash"
UNKNOWN = "Unknown kernel command line parameters"
PASSED = "will be passed to user space."
BOOTED = "[    0.000000] Linux version 6.1.0-37-amd64\n"


@pytest.mark.parametrize(
    ("arguments", "message", "word", "instead"),
    [
        ("pci=noacs", "PCI: Unknown option `noacs'", "pci=noacs", '"acs_redirect": "off"'),
        ("pci=realoc", "PCI: Unknown option `realoc'", "pci=realoc", "spells it"),
        ("amd_iommu=pt", "AMD-Vi: Unknown option - 'pt'", "amd_iommu=pt", "iommu=pt passes"),
        ("intel_iommu=pt", "DMAR: Unknown option - 'pt'", "intel_iommu=pt", "iommu=pt passes"),
        (
            "iommu.passthrough=pt",
            "Malformed early option 'iommu.passthrough'",
            "iommu.passthrough",
            "iommu=pt passes",
        ),
        (
            "iommu-pt",
            f'{UNKNOWN} "BOOT_IMAGE=/boot/vmlinuz splash iommu-pt", {PASSED}',
            "iommu-pt",
            "iommu=pt passes",
        ),
        (
            "pcie_acs_override=downstream",
            f'{UNKNOWN} "splash pcie_acs_override=downstream", {PASSED}',
            "pcie_acs_override=downstream",
            '"acs_redirect": "off"',
        ),
    ],
)
def test_a_word_that_the_kernel_does_not_know(
    arguments: str, message: str, word: str, instead: str
) -> None:
    log = f"{BOOTED}[    0.000000] {message}\n"

    found = rig.look(IGNORED, proc_cmdline=f"{PLAIN} {arguments}\n", kernel_log=log)

    assert (found.status, found.summary) == ("info", f"the kernel ignores {word}")
    assert f"instead of {word}: " in found.why
    assert instead in found.why
    assert message in found.evidence[0].line
    assert found.fix is None


@pytest.mark.parametrize("argument", ["pci=noacs", "amd_iommu=on", "pci=realloc,noacs"])
def test_what_no_kernel_knows_needs_no_log(argument: str) -> None:
    found = rig.look(IGNORED, proc_cmdline=f"{PLAIN} {argument}\n", kernel_log=None)

    assert found.status == "info"


def test_what_the_inventory_declares_is_a_warning_and_comes_off() -> None:
    declared = spec(kernel_args=["iommu=pt", "pci=noacs"])

    found = rig.look(IGNORED, declared, proc_cmdline=f"{PLAIN} iommu=pt pci=noacs\n")

    assert found.status == "warn"
    assert found.fix is not None
    assert found.fix.declare == {"kernel_args": ["iommu=pt"]}


@pytest.mark.parametrize(
    "message",
    [
        f'{UNKNOWN} "BOOT_IMAGE=/vmlinuz splash boot=casper", {PASSED}',
        "Kernel command line: ro quiet iommu=pt",
        "PCI: Using configuration type 1 for base access",
    ],
)
def test_words_that_others_read_are_well(message: str) -> None:
    log = f"{BOOTED}[    0.000000] {message}\n"

    assert rig.look(IGNORED, proc_cmdline=f"{PLAIN} iommu=pt\n", kernel_log=log).status == "ok"


@pytest.mark.parametrize("log", [None, "[ 9000.000000] usb 1-1: new device\n"])
def test_a_log_without_its_beginning_is_not_well(log: str | None) -> None:
    assert rig.look(IGNORED, proc_cmdline=PLAIN, kernel_log=log).status == "unknown"
