from __future__ import annotations

from rigops.concerns.kernel_args.guards import reasons


def test_a_reboot_is_needed_for_what_is_declared_and_not_live_and_the_other_way_round() -> None:
    live = ("quiet", "iommu=pt")

    assert list(reasons(live, ("iommu=pt",), ("iommu=pt",))) == []
    assert list(reasons(live, ("pci=realloc",), ("iommu=pt",))) == [
        "the kernel does not run with pci=realloc yet",
        "the kernel still runs with iommu=pt",
    ]
    assert list(reasons(live, (), ("amd_iommu=off",))) == []
