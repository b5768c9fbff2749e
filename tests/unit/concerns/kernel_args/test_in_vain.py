"""What no kernel knows is refused, with what to write instead."""

from __future__ import annotations

from rigops.concerns.kernel_args import in_vain


def test_amd_iommu_on() -> None:
    text = in_vain.blocker(["amd_iommu=on", "iommu=pt"])

    assert "amd_iommu=on is an option of no kernel" in text
    assert "iommu=pt for passthrough" in text
    assert "amd_iommu=off" in text


def test_noacs_in_a_list_of_options() -> None:
    text = in_vain.blocker(["pci=realloc,noacs"])

    assert "pci=noacs is an option of no kernel" in text
    assert '"acs_redirect": "off"' in text


def test_other_arguments_may_be_known() -> None:
    assert in_vain.blocker(["iommu=pt", "amd_iommu=off", "pci=noaer", "noacs"]) == ""
