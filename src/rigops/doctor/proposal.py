"""What to declare for a host that was looked at: what it has, and what it would do well to have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.concerns import registry
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.nvidia_driver import record as driver
from rigops.concerns.nvidia_driver.resolver import request
from rigops.doctor.views.cards import find_cards
from rigops.inventory.spec.read import examine
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.record import declared
from rigops.record.declared import Declared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rigops.catalog import Catalog
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.doctor.views.cards import Card
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.probe.snapshot import HostSnapshot

_PASSTHROUGH: Final = "iommu=pt"
_TRANSLATED: Final = frozenset({"DMA", "DMA-FQ"})
_OF_RIGS: Final = ("iommu=", "iommu.", "intel_iommu=", "amd_iommu=", "pci=", "pcie_", "nvidia")
_ACS_UNIT: Final = "rigops-acs.service"


@dataclass(frozen=True)
class Entry:
    """`holds`: the host is so already, and apply would find nothing to change.

    `also`: keys without which apply would refuse it.
    """

    key: str
    value: object
    reason: str
    holds: bool = False
    also: Mapping[str, object] = field(default_factory=dict)


def propose(snapshot: HostSnapshot, catalog: Catalog, choice: Choice | None) -> tuple[Entry, ...]:
    """`choice`: None where the driver's sources did not answer. Only what this version acts on."""
    known = _declared(snapshot[RIGOPS_STATE].or_empty)
    cards = find_cards(snapshot, catalog)
    found = [_gpus(cards)] if cards else []
    arguments = known.get("kernel_args")
    found += _kernel_args(snapshot, cards, arguments.value if arguments else None)
    if choice is not None and "driver" not in known:
        found += _driver(choice)
    # What was declared comes before what is there.
    return (*known.values(), *(one for one in found if one.key not in known or not one.holds))


def _declared(state: RigopsState) -> dict[str, Entry]:
    """What apply was asked for here, as far as it could be read."""
    recorded = Declared.read(state.records.get(declared.PATH))
    keys = registry.keys()
    found = recorded.keys if recorded else _before_it_was_recorded(state)
    spec, _ = examine({name: one for name, one in found.items() if name in keys}, keys)
    able = {None, *registry.names_in_this_version()}
    when = f", on {recorded.at[:10]}" if recorded else ""
    entries = {}
    for name in spec.declared:
        acts = registry.concern_of(name) in able
        reason = f"declared when apply changed this host last{when}"
        unable = "" if acts else "; this version cannot act on it"
        entries[name] = Entry(name, found[name], f"{reason}{unable}", holds=acts)
    return entries


def _before_it_was_recorded(state: RigopsState) -> dict[str, object]:
    """Of a host that version 0.1 set up."""
    pinned = driver.pinned(state.records.get(driver.PATH))
    found: dict[str, object] = {}
    if pinned:
        found = request.declared(pinned.declared) or {"driver": pinned.version}
    return {**found, "acs_redirect": "off"} if _ACS_UNIT in state.units else found


def _gpus(cards: Sequence[Card]) -> Entry:
    models = Counter(card.model.name if card.model else "" for card in cards)
    value = len(cards) if "" in models else dict(models)
    return Entry("gpus", value, "the cards on the bus; doctor fails when one is gone", holds=True)


def _kernel_args(
    snapshot: HostSnapshot, cards: Sequence[Card], declared: object
) -> Iterator[Entry]:
    live = snapshot[PROC_CMDLINE].or_empty.arguments
    if isinstance(declared, list):
        held = [str(one) for one in declared]
    elif held := _held(snapshot, live):
        reason = "on the running command line, and configured for the next boot"
        yield Entry("kernel_args", held, reason, holds=True)
    groups = snapshot[IOMMU_GROUPS].value
    members = [groups.of(card.address) for card in cards] if groups else []
    translated = any(member and member.type in _TRANSLATED for member in members)
    if len(cards) > 1 and translated and _PASSTHROUGH not in {*live, *held}:
        reason = "the IOMMU translates what the cards send: copies between them can hang"
        yield Entry("kernel_args", [*held, _PASSTHROUGH], reason)


def _held(snapshot: HostSnapshot, live: Sequence[str]) -> list[str]:
    files = snapshot[BOOTLOADER].or_empty.files
    own = grub.added_arguments(files.get(grub.DROP_IN, ""))
    kept = {*own, *(one for one in grub.foreign_arguments(files) if one.startswith(_OF_RIGS))}
    return [one for one in dict.fromkeys(live) if one in kept]


def _driver(choice: Choice) -> Iterator[Entry]:
    """Only what plan would take. Where it would take none, doctor says what comes first."""
    also = dict(choice.declare)
    if driver := also.pop("driver", None):
        best = choice.recommended
        reason = best.why if best and not choice.refusal else str(choice.refusal)
        yield Entry("driver", driver, reason, also=also)
