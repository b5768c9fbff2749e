"""A host in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.rig.cards import find_cards

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.probe.facts import HostFacts


def summary(facts: HostFacts, catalog: Catalog) -> dict[str, object]:
    """None where it was not collected; `gpus` are those on the bus, whatever the driver says."""
    return {
        "os": facts.os_release and (facts.os_release.pretty_name or facts.os_release.id),
        "kernel": facts.uname and facts.uname.release,
        "driver": facts.nvidia_version and facts.nvidia_version.version,
        "gpus": _gpus(facts, catalog),
    }


def _gpus(facts: HostFacts, catalog: Catalog) -> list[dict[str, object]] | None:
    if facts.pci is None and facts.lspci is None and facts.nvidia_smi_xml is None:
        return None
    return [
        {
            "address": card.address,
            "model": card.model.name if card.model else None,
            "name": card.name,
            "driver": card.function.driver if card.function else None,
        }
        for card in find_cards(facts, catalog)
    ]
