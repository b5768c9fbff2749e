"""The board, what its firmware offers, and what the kernel makes of Intel's IOMMU by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import boot, firmware
from tests.unit.probe.asking import ask
from tests.unit.probe.host_sections import FIRMWARE
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

UNSET = "# CONFIG_INTEL_IOMMU_DEFAULT_ON is not set"


def test_what_a_board_says() -> None:
    found = firmware.parse(FIRMWARE)

    assert found.name == "ASUSTeK COMPUTER INC. Pro WS WRX80E-SAGE SE WIFI"
    assert (found.cpu, found.offers_iommu, found.intel_by_itself) == ("amd", True, False)
    assert "IVRS" in found.raw
    assert not found.unparsed


def test_nothing_said_is_nothing_known() -> None:
    found = firmware.parse("")

    assert (found.name, found.cpu, found.offers_iommu, found.intel_by_itself) == (
        "",
        "",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("options", "by_itself"),
    [
        (["CONFIG_INTEL_IOMMU=y", "CONFIG_INTEL_IOMMU_DEFAULT_ON=y"], [True]),
        (["CONFIG_INTEL_IOMMU=y", UNSET, "CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y"], [True]),
        (["CONFIG_INTEL_IOMMU=y", UNSET], [False]),
        (["CONFIG_INTEL_IOMMU=y"], [None]),
        (["# CONFIG_INTEL_IOMMU is not set"], [None]),
        (["rubbish"], [None]),
    ],
)
def test_what_the_kernel_does_by_itself(options: list[str], by_itself: list[object]) -> None:
    text = "\n".join([f"== {firmware.KERNEL}", *options, ""])

    assert [firmware.parse(text).intel_by_itself] == by_itself


def test_a_firmware_without_the_tables_offers_none() -> None:
    assert firmware.parse(f"== {firmware.TABLES}\n").offers_iommu is False


def test_an_iommu_that_the_kernel_uses_was_offered_without_a_table_too() -> None:
    assert firmware.parse(f"== {firmware.TABLES}\niommu_groups\n").offers_iommu is True


@pytest.mark.parametrize("shell", SHELLS)
def test_the_snippet_reads_a_machine(shell: str, tmp_path: Path) -> None:
    dmi, tables = tmp_path / "sys/class/dmi/id", tmp_path / "sys/firmware/acpi/tables"
    dmi.mkdir(parents=True)
    tables.mkdir(parents=True)
    (dmi / "board_vendor").write_text("Supermicro\n")
    (dmi / "board_name").write_text("H12SSL-i\n")
    (tables / "DMAR").write_text("")

    found = firmware.parse(ask(firmware.SECTION, shell, tmp_path).text)

    assert (found.name, found.offers_iommu) == ("Supermicro H12SSL-i", True)
    assert not found.unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_without_any_of_it_is_no_fault(shell: str, tmp_path: Path) -> None:
    answer = ask(firmware.SECTION, shell, tmp_path)

    assert answer.is_complete
    assert firmware.parse(answer.text).offers_iommu is None


def test_the_hosts_own_clock() -> None:
    assert boot.parse("== date +%s\n1795000000\n").epoch_s == 1795000000
    assert boot.parse("== date +%s\nnever\n").epoch_s is None
    assert boot.parse("").epoch_s is None
