"""What arguments about the IOMMU mean for a machine and its kernel."""

from __future__ import annotations

import pytest

from rigops.concerns.kernel_args import kernel_line
from rigops.probe.sections.firmware import Firmware

INTEL_OFF = Firmware(cpu="intel", intel_by_itself=False, offers_iommu=True)
INTEL_ON = Firmware(cpu="intel", intel_by_itself=True, offers_iommu=True)
AMD = Firmware(cpu="amd", intel_by_itself=False, offers_iommu=True)


@pytest.mark.parametrize("argument", ["iommu=pt", "iommu.passthrough=1"])
@pytest.mark.parametrize("firmware", [AMD, INTEL_ON, None])
def test_passthrough_takes_the_isolation_of_all_devices(
    argument: str, firmware: Firmware | None
) -> None:
    text = kernel_line.passthrough_note([argument], [argument], firmware)

    assert argument in text
    assert "isolation" in text
    assert "every device" in text


def test_on_a_kernel_that_leaves_intels_off_passthrough_alone_is_in_vain() -> None:
    text = kernel_line.passthrough_note(["iommu=pt"], ["iommu=pt"], INTEL_OFF)

    assert "changes nothing" in text
    assert '"kernel_args": ["intel_iommu=on", "iommu=pt"]' in text
    assert "P2P needs neither" in text


@pytest.mark.parametrize("wanted", [["intel_iommu=on", "iommu=pt"], ["iommu=pt", "intel_iommu=on"]])
def test_with_intel_iommu_on_it_is_passthrough(wanted: list[str]) -> None:
    text = kernel_line.passthrough_note(wanted, wanted, INTEL_OFF)

    assert "isolation" in text


def test_intel_iommu_on_may_be_somebody_elses() -> None:
    text = kernel_line.passthrough_note(["iommu=pt"], ["iommu=pt", "intel_iommu=on"], INTEL_OFF)

    assert "isolation" in text


def test_other_arguments_are_nothing_to_speak_of() -> None:
    assert (
        kernel_line.passthrough_note(["intel_iommu=on"], ["intel_iommu=on", "iommu=pt"], INTEL_OFF)
        == ""
    )
    assert kernel_line.passthrough_note(["pci=realloc"], ["pci=realloc"], INTEL_OFF) == ""
