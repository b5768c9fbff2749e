"""Remedies in the BIOS use the words of this host's board, and say how to see that they took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.doctor import logged, pcie_rigs
from tests.unit.doctor.examining import check_of, look, spec
from tests.unit.probe import answers
from tests.unit.probe.host_sections import FIRMWARE

if TYPE_CHECKING:
    from rigops.doctor.finding import Fix

INTEL = (
    FIRMWARE.replace("AuthenticAMD", "GenuineIntel")
    .replace("IVRS", "DMAR")
    .replace("ASUSTeK COMPUTER INC.", "Gigabyte Technology Co., Ltd.")
)
INTEL_ON = INTEL.replace("# CONFIG_INTEL_IOMMU_DEFAULT_ON is not set", "").replace(
    "CONFIG_INTEL_IOMMU=y", "CONFIG_INTEL_IOMMU=y\nCONFIG_INTEL_IOMMU_DEFAULT_ON=y"
)
NO_TABLES = INTEL.replace("DMAR\n", "")
SMALL = {
    "pci": pcie_rigs.PCI.replace(f"bar1={64 << 30}", f"bar1={256 << 20}"),
    "lspci": pcie_rigs.ROOT_PORTS.replace("[size=64G]", "[size=256M]"),
    "nvidia-smi-xml": None,
}


def small_window(**more: str) -> Fix:
    texts = {**pcie_rigs.HEALTHY, **SMALL, **{k.replace("_", "-"): v for k, v in more.items()}}
    fix = pcie_rigs.found("bar1.size", texts, spec(p2p="required"))[0].fix
    assert fix is not None
    return fix


def test_a_small_window_is_mended_in_the_words_of_the_board() -> None:
    fix = small_window(firmware=FIRMWARE)

    assert fix.kind == "bios"
    assert "ASUSTeK COMPUTER INC. Pro WS WRX80E-SAGE SE WIFI" in fix.text
    assert '"Re-Size BAR Support" (under Advanced > PCI Subsystem Settings)' in fix.text
    assert "whether it took" in fix.text
    assert "nvidia-smi -q -d MEMORY" in fix.text


def test_the_kernel_log_names_the_board_where_nothing_else_does() -> None:
    log = (
        "[    0.0] DMI: Gigabyte Technology Co., Ltd. TRX40 AORUS XTREME/TRX40 AORUS XTREME, "
        "BIOS F5 12/10/2020\n"
    )
    text = small_window(kernel_log=log).text

    assert "in the BIOS of Gigabyte Technology Co., Ltd. TRX40 AORUS XTREME turn on" in text
    assert "Settings > IO Ports" in text


def test_a_board_that_nobody_names_gets_the_words_of_most() -> None:
    assert 'in the BIOS turn on "Above 4G Decoding" or' in small_window().text


def test_acs_by_hand_names_the_boards_setting() -> None:
    texts = {
        "lspci": pcie_rigs.ROOT_PORTS,
        "nvidia-smi-p2p-read": answers.MATRIX.format("OK"),
        "firmware": FIRMWARE,
    }
    fix = pcie_rigs.found("acs.path", {**pcie_rigs.HEALTHY, **texts})[0].fix

    assert fix is not None
    said = f"{fix.text} {fix.by_hand}"
    assert 'turn off "ACS Enable" (under Advanced > AMD CBS > NBIO Common Options)' in said
    assert "ACSCtl" in said


def test_the_last_resort_against_faults_names_the_boards_setting() -> None:
    check = check_of("iommu.fault")
    fault = "DMAR: [DMA Write NO_PASID] Request device [0a:00.0] fault addr 0xfe000000"
    findings = logged.look(
        check,
        {
            "kernel-log": logged.journal((5, fault)),
            "iommu-groups": answers.PASSTHROUGH,
            "proc-cmdline": "ro iommu=pt\n",
            "firmware": INTEL,
        },
    )

    assert 'turn off "VT-d" (under Settings > Miscellaneous' in str(findings[0].fix)


def test_an_iommu_that_the_kernel_leaves_off_is_explained_where_passthrough_is_declared() -> None:
    found = look("iommu.mode", spec(kernel_args=["iommu=pt"]), iommu_groups="", firmware=INTEL)

    assert found.status == "ok"
    assert '"kernel_args": ["intel_iommu=on", "iommu=pt"]' in found.why
    assert "P2P needs neither" in found.why


def test_an_iommu_that_is_off_in_the_bios_is_explained_where_passthrough_is_declared() -> None:
    found = look("iommu.mode", spec(kernel_args=["iommu=pt"]), iommu_groups="", firmware=NO_TABLES)

    assert found.status == "ok"
    assert "the firmware offers no IOMMU" in found.why
    assert '"VT-d"' in found.why


def test_without_a_declaration_an_iommu_that_is_off_needs_no_explanation() -> None:
    assert look("iommu.mode", iommu_groups="", firmware=NO_TABLES).why == ""


@pytest.mark.parametrize(
    ("firmware", "line", "declare"),
    [
        (INTEL, "ro intel_iommu=on", ["intel_iommu=on", "iommu=pt"]),
        (INTEL_ON, "ro intel_iommu=on", ["iommu=pt"]),
        (INTEL, "ro quiet", ["iommu=pt"]),
        (FIRMWARE, "ro intel_iommu=on", ["iommu=pt"]),
        (None, "ro intel_iommu=on", ["iommu=pt"]),
    ],
)
def test_the_fix_declares_intel_iommu_on_where_the_kernel_needs_it(
    firmware: str | None, line: str, declare: list[str]
) -> None:
    fix = look("iommu.mode", proc_cmdline=f"{line}\n", firmware=firmware).fix

    assert fix is not None
    assert fix.declare == {"kernel_args": declare}


def test_where_no_iommu_is_active_doctor_says_how_guests_would_get_one() -> None:
    off, left_off = (
        look("iommu.present", iommu_groups="", firmware=text) for text in (NO_TABLES, INTEL)
    )

    assert '"VT-d" (under Settings > Miscellaneous' in off.why
    assert "intel_iommu=on" in left_off.why
    assert look("iommu.present", iommu_groups="").why == ""


def test_amd_iommu_on_is_told_with_what_to_write_instead() -> None:
    found = look("cmdline.ignored", proc_cmdline="ro amd_iommu=on\n")

    assert "ignores amd_iommu=on" in found.summary
    assert "iommu=pt for passthrough" in found.why
