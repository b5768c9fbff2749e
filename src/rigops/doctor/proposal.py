"""A first declaration for a probed host: its present state, and suggestions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rigops.concerns import registry
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.nvidia_driver import record as driver
from rigops.concerns.nvidia_driver.resolver import request
from rigops.dataclass import dataclass
from rigops.doctor.card import find_cards
from rigops.doctor.registry import examine
from rigops.inventory.spec.read import examine as examine_spec
from rigops.json_fields import readable
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.record import declared
from rigops.record.declared import DeclaredKeys

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.doctor.finding import Finding
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.probe.snapshot import HostSnapshot

_OF_RIGS: Final = ("iommu=", "iommu.", "intel_iommu=", "amd_iommu=", "pci=", "pcie_", "nvidia")
_NOT_WELL: Final = frozenset({"fail", "warn", "unknown"})
_ACS_UNIT: Final = "rigops-acs.service"


@dataclass(frozen=True)
class ProposedKeys:
    """Keys that belong together. `holds`: the host is so, and apply would change nothing."""

    keys: Mapping[str, object]
    reason: str
    holds: bool = False


def propose(
    snapshot: HostSnapshot, catalog: Catalog, choose_driver: Callable[[], Choice | None]
) -> tuple[ProposedKeys, ...]:
    """The former declaration, the present state, and every line that doctor advises."""
    declared = tuple(_declared(snapshot[RIGOPS_STATE].or_empty))
    known = {key for one in declared for key in one.keys}
    there = (one for one in _there(snapshot, catalog) if not known & one.keys.keys())
    entries = (*declared, *there)
    holds = {key: value for one in entries if one.holds for key, value in one.keys.items()}
    spec, _ = examine_spec(holds, registry.keys())
    findings = examine(snapshot, spec, catalog, choose_driver=choose_driver)
    suggested = tuple(_suggested(findings))
    asks_for_driver = spec.driver is None and not any("driver" in one.keys for one in suggested)
    choice = choose_driver() if asks_for_driver else None
    return (*entries, *suggested, *(_kept(choice) if choice else ()))


def _kept(choice: Choice) -> Iterator[ProposedKeys]:
    """A driver with which nothing is wrong: declared, it stays."""
    if choice.declare and choice.recommended:
        yield ProposedKeys(choice.declare, choice.recommended.why)


def _suggested(findings: Iterable[Finding]) -> Iterator[ProposedKeys]:
    """The first finding of each line says why."""
    seen: list[Mapping[str, object]] = []
    for one in findings:
        fix = one.fix if one.status in _NOT_WELL else None
        if fix and fix.by_apply and fix.declare and not fix.is_declared:
            if fix.declare not in seen:
                yield ProposedKeys(fix.declare, one.summary)
            seen.append(fix.declare)


def _declared(state: RigopsState) -> Iterator[ProposedKeys]:
    """The declaration of the last apply here, as far as it could be read."""
    recorded = readable(DeclaredKeys.from_json, state.records.get(declared.PATH))
    found = recorded.keys if recorded else _before_it_was_recorded(state)
    # The host's owner wrote this: it is not trusted for paths on this machine.
    keys = {name: key for name, key in registry.keys().items() if not key.stays_here}
    spec, _ = examine_spec({name: one for name, one in found.items() if name in keys}, keys)
    able = {None, *registry.names_in_this_version()}
    when = f", on {recorded.at[:10]}" if recorded else ""
    for name in sorted(spec.declared):
        acts = registry.concern_of(name) in able
        unable = "" if acts else "; this version cannot act on it"
        reason = f"declared when apply changed this host last{when}{unable}"
        yield ProposedKeys({name: found[name]}, reason, holds=acts)


def _before_it_was_recorded(state: RigopsState) -> dict[str, object]:
    """Of a host that version 0.1 set up."""
    pinned = driver.pinned(state.records.get(driver.PATH))
    found: dict[str, object] = {}
    if pinned:
        found = request.declared(pinned.declared) or {"driver": pinned.version}
    return {**found, "acs_redirect": "off"} if _ACS_UNIT in state.units else found


def _there(snapshot: HostSnapshot, catalog: Catalog) -> Iterator[ProposedKeys]:
    cards = find_cards(snapshot, catalog)
    if not cards:
        return
    models = Counter(card.model.name if card.model else "" for card in cards)
    gpus = len(cards) if "" in models else dict(models)
    yield ProposedKeys(
        {"gpus": gpus}, "the cards on the bus; doctor fails when one is gone", holds=True
    )
    files = snapshot[BOOTLOADER].or_empty.files
    own = grub.added_arguments(files.get(grub.DROP_IN, ""))
    kept = {*own, *(one for one in grub.foreign_arguments(files) if one.startswith(_OF_RIGS))}
    live = snapshot[PROC_CMDLINE].or_empty.arguments
    if held := [one for one in dict.fromkeys(live) if one in kept]:
        reason = "on the running command line, and configured for the next boot"
        yield ProposedKeys({"kernel_args": held}, reason, holds=True)
