"""What no kernel knows is refused, with what to write instead."""

from __future__ import annotations

from rigops.concerns.kernel_args.state import blockers


def test_what_no_kernel_knows_is_refused_in_a_list_of_options_too() -> None:
    (text,) = blockers(["amd_iommu=on", "iommu=pt", "pci=realloc,noacs"], [], {})

    amd, acs = text.split("pci=noacs is an option of no kernel")
    assert amd.startswith("amd_iommu=on is an option of no kernel")
    assert "iommu=pt for passthrough" in amd
    assert "amd_iommu=off" in amd
    assert '"acs_redirect": "off"' in acs


def test_other_arguments_may_be_known() -> None:
    assert not blockers(["iommu=pt", "amd_iommu=off", "pci=noaer", "noacs"], [], {})
