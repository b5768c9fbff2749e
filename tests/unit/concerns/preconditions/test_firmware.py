"""Steps in the BIOS: in the words of the board, and only where something misses them."""

from __future__ import annotations

from rigops.catalog import load
from rigops.concerns.acs.decide import firmware_step
from rigops.concerns.kernel_args import kernel_line
from rigops.concerns.preconditions import firmware
from rigops.probe.sections import pci
from rigops.probe.sections.firmware import Firmware

ASUS = Firmware(vendor="ASUSTeK COMPUTER INC.", board="Pro WS WRX80E-SAGE SE WIFI", cpu="amd")
INTEL = Firmware(vendor="Gigabyte Technology Co., Ltd.", cpu="intel", offers_iommu=False)
CARD = "0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 driver=nvidia bar1={}\n"


def test_a_step_names_the_board_its_words_and_how_to_see_them() -> None:
    text = firmware.in_the_bios(load(), ASUS, "above-4g", "resizable-bar")

    assert "ASUSTeK COMPUTER INC. Pro WS WRX80E-SAGE SE WIFI" in text
    assert '"Above 4G Decoding" (under Advanced > PCI Subsystem Settings), then turn on' in text
    assert '"Re-Size BAR Support"' in text
    assert "with CSM off" in text
    assert "/resource" in text
    assert "BAR1 Total" in text


def test_a_board_that_nobody_knows_gets_the_words_of_most() -> None:
    text = firmware.in_the_bios(load(), None, "iommu")

    assert '"IOMMU"' in text
    assert '"VT-d"' in text
    assert "in the BIOS turn on" in text


def test_arguments_that_ask_for_an_iommu_where_the_firmware_offers_none() -> None:
    text = kernel_line.without_an_iommu(load(), INTEL, ["intel_iommu=on", "iommu=pt"])

    assert "intel_iommu=on and iommu=pt changes nothing" in text
    assert "P2P needs no IOMMU" in text
    assert '"VT-d" (under Settings > Miscellaneous' in text
    assert "/sys/kernel/iommu_groups" in text


def test_nothing_is_said_where_the_firmware_offers_one_or_nobody_knows() -> None:
    offering = Firmware(cpu="amd", offers_iommu=True)

    for seen in (offering, Firmware(cpu="amd"), None):
        assert kernel_line.without_an_iommu(load(), seen, ["iommu=pt"]) == ""
    assert kernel_line.without_an_iommu(load(), INTEL, ["iommu=off", "pci=realloc"]) == ""


def test_a_card_whose_memory_is_not_in_its_window() -> None:
    text = firmware.for_large_windows(load(), ASUS, pci.parse(CARD.format(256 << 20)))

    assert "0000:0b:00.0 (256 MiB of 24 GiB)" in text
    assert "Re-Size BAR" in text


def test_a_large_window_and_one_that_nobody_read_are_nothing_to_tell() -> None:
    for size in (32 << 30, "-"):
        assert firmware.for_large_windows(load(), ASUS, pci.parse(CARD.format(size))) == ""


def test_acs_in_the_boards_words() -> None:
    text = firmware_step(load(), ASUS)

    assert 'turn off "ACS Enable" (under Advanced > AMD CBS > NBIO Common Options)' in text
    assert "ACSCtl" in text
