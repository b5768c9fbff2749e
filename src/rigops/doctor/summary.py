"""A host in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import rig

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.probe.facts import HostFacts


def summary(facts: HostFacts, catalog: Catalog) -> dict[str, object]:
    """None where it was not collected; `gpus` are those on the bus, whatever the driver says."""
    return {
        "os": facts.os_release and (facts.os_release.pretty_name or facts.os_release.id),
        "kernel": facts.uname and facts.uname.release,
        "driver": facts.nvidia_version and facts.nvidia_version.version,
        "gpus": facts.pci and [
            {"address": gpu.address, "model": card.name if card else None, "driver": gpu.driver}
            for gpu in facts.pci.nvidia_gpus
            for card in [rig.model(catalog, gpu)]
        ],
    }  # fmt: skip
