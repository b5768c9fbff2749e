"""Arguments that guides spread and no kernel knows, and what to declare instead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rigops.probe.kernel_arguments import words

INSTEAD: Final = {
    "amd_iommu=on": "AMD's IOMMU is on unless the BIOS or amd_iommu=off switches it off, so write "
    "nothing for on, and iommu=pt for passthrough",
    "pci=noacs": '"acs_redirect": "off" in the inventory is what stops the ports between the cards '
    "from redirecting",
}


def known(argument: str) -> list[str]:
    """The words of this argument that no kernel knows: `pci=` and others take lists."""
    return [word for word in words(argument) if word in INSTEAD]


def blocker(coming: Collection[str]) -> str:
    """`coming`: arguments that would be added. Empty where kernels may know them all."""
    found = [word for argument in coming for word in known(argument)]
    return "; ".join(
        f"{word} is an option of no kernel: take it out of kernel_args; {INSTEAD[word]}"
        for word in found
    )
