"""What to declare for a host that was looked at: what it has, and what it would do well to have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.catalog import lookup, versions
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.nvidia_driver import record as driver
from rigops.concerns.registry import concern_of
from rigops.doctor.views.cards import find_cards
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rigops.catalog import Catalog
    from rigops.catalog.model import Gpu
    from rigops.doctor.views.cards import Card
    from rigops.probe.snapshot import HostSnapshot

_PASSTHROUGH: Final = "iommu=pt"
_TRANSLATED: Final = frozenset({"DMA", "DMA-FQ"})
_OF_RIGS: Final = ("iommu=", "iommu.", "intel_iommu=", "amd_iommu=", "pci=", "pcie_", "nvidia")
_OPEN_FROM: Final = "580"
_HUNGRY_WATTS: Final = 300


@dataclass(frozen=True)
class Entry:
    """`holds`: the host is so already, and apply would find nothing to change."""

    key: str
    value: object
    reason: str
    holds: bool = False


def propose(
    snapshot: HostSnapshot, catalog: Catalog, deployable: Collection[str]
) -> tuple[Entry, ...]:
    """What holds stays a recommendation where this version has no deploy that could keep it."""
    cards = find_cards(snapshot, catalog)
    if not cards:
        return ()
    entries = [
        _gpus(cards),
        *_kernel_args(snapshot, cards),
        *_driver(snapshot, catalog, cards),
        *_persistence(cards),
        *_power(cards),
    ]
    return tuple(
        entry
        if not entry.holds or concern_of(entry.key) in {None, *deployable}
        else Entry(entry.key, entry.value, f"{entry.reason}; this version cannot keep it so yet")
        for entry in entries
    )


def _gpus(cards: Sequence[Card]) -> Entry:
    models = Counter(card.model.name if card.model else "" for card in cards)
    value = len(cards) if "" in models else dict(models)
    return Entry("gpus", value, "the cards on the bus; doctor fails when one is gone", holds=True)


def _kernel_args(snapshot: HostSnapshot, cards: Sequence[Card]) -> list[Entry]:
    live = snapshot[PROC_CMDLINE].or_empty.arguments
    files = snapshot[BOOTLOADER].or_empty.files
    own = grub.added_arguments(files.get(grub.DROP_IN, ""))
    kept = {*own, *(one for one in grub.foreign_arguments(files) if one.startswith(_OF_RIGS))}
    held = [one for one in dict.fromkeys(live) if one in kept]
    found = []
    if held:
        reason = "on the running command line, and configured for the next boot"
        found.append(Entry("kernel_args", held, reason, holds=True))
    groups = snapshot[IOMMU_GROUPS].value
    members = [groups.of(card.address) for card in cards] if groups else []
    translated = any(member and member.type in _TRANSLATED for member in members)
    if len(cards) > 1 and translated and _PASSTHROUGH not in live:
        reason = "the IOMMU translates what the cards send: copies between them can hang"
        found.append(Entry("kernel_args", [*held, _PASSTHROUGH], reason))
    return found


def _driver(snapshot: HostSnapshot, catalog: Catalog, cards: Sequence[Card]) -> list[Entry]:
    models = [card.model for card in cards if card.model]
    loaded = snapshot[NVIDIA_VERSION].or_empty.version
    if loaded and _is_good(catalog, loaded, models):
        own, is_pinned = loaded.partition(".")[0], _pinned(snapshot) == loaded
        why = f"{loaded} is loaded and known to be good"
        kept = "" if is_pinned else "; not pinned by rigops"
        return [Entry("driver", own, why + kept, holds=is_pinned)]
    best = lookup.recommended(catalog, models)
    if best is None:
        return []
    why = f"{loaded} is loaded, and not known to be good" if loaded else "no driver is loaded"
    until = f", maintained until {best.end_of_life}" if best.end_of_life[:1].isdigit() else ""
    about = f"{why}; {best.branch} is known to be good ({best.kind}{until})"
    return [Entry("driver", best.branch, about), *_flavor(models, best.branch)]


def _pinned(snapshot: HostSnapshot) -> str:
    records = snapshot[RIGOPS_STATE].or_empty.records
    found = driver.pinned(records.get(driver.PATH))
    return found.version if found else ""


def _flavor(models: Sequence[Gpu], branch: str) -> list[Entry]:
    """Nothing for cards that only one flavor drives: `auto` finds that by itself."""
    able = {"Turing", "Ampere", "Ada", "Hopper"}
    if int(branch) < int(_OPEN_FROM) or not models:
        return []
    if not all(model.architecture in able for model in models):
        return []
    return [Entry("driver_flavor", "open", f"what NVIDIA advises for these cards from {branch} on")]


def _is_good(catalog: Catalog, version: str, models: Sequence[Gpu]) -> bool:
    try:
        return lookup.is_good(catalog, versions.parse(version), models)
    except ValueError:
        return False


def _persistence(cards: Sequence[Card]) -> list[Entry]:
    modes = {card.smi.persistence for card in cards if card.smi}
    if modes == {True}:
        return [Entry("gpu_persistence", value=True, reason="on for every card", holds=True)]
    if False in modes:
        reason = "off: the driver forgets power limits and clocks whenever nobody uses the cards"
        return [Entry("gpu_persistence", value=True, reason=reason)]
    return []


def _power(cards: Sequence[Card]) -> list[Entry]:
    limited = {
        card.address: round(card.smi.watts_limit)
        for card in cards
        if card.smi
        and card.smi.watts_limit is not None
        and card.smi.watts_default is not None
        and round(card.smi.watts_limit) != round(card.smi.watts_default)
    }
    if limited:
        same = len(limited) == len(cards) and len(set(limited.values())) == 1
        value: object = (
            f"{next(iter(limited.values()))}W"
            if same
            else {address: f"{watts}W" for address, watts in limited.items()}
        )
        return [Entry("gpu_power_limit", value, "in force now, until the reboot", holds=True)]
    hungry = [card for card in cards if card.model and card.model.watts_default >= _HUNGRY_WATTS]
    if len(hungry) < 2:  # noqa: PLR2004 - one card alone seldom trips a supply
        return []
    reason = (
        f"{len(hungry)} cards of {_HUNGRY_WATTS} W and more peak far above their limits; a fifth "
        "less power costs a few percent of speed"
    )
    return [Entry("gpu_power_limit", "80%", reason)]
