"""A first declaration for a probed host: its present state, and suggestions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from rigops.catalog import Catalog
from rigops.concerns import registry
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.nvidia_driver import record as driver
from rigops.concerns.nvidia_driver.resolver import request
from rigops.concerns.nvidia_driver.resolver.options import Choice
from rigops.concerns.snapshots import decide as snapshots
from rigops.concerns.snapshots.file_systems import SECTION as FILE_SYSTEMS
from rigops.dataclass import dataclass
from rigops.doctor.card import find_cards
from rigops.doctor.finding import Finding
from rigops.doctor.registry import examine
from rigops.doctor.stories import put_together, unexplained
from rigops.errors import RigopsError
from rigops.inventory.merge import collect
from rigops.inventory.spec.read import examine as examine_spec
from rigops.json_fields import readable
from rigops.ownership.ownership import Ownership
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.rigops_state import RigopsState
from rigops.probe.snapshot import HostSnapshot
from rigops.record import declared
from rigops.record.declared import DeclaredKeys

_OF_RIGS: Final = ("iommu=", "iommu.", "intel_iommu=", "amd_iommu=", "pci=", "pcie_", "nvidia")
_NOT_WELL: Final = frozenset({"fail", "warn", "unknown"})
_ACS_UNIT: Final = "rigops-acs.service"


@dataclass(frozen=True)
class ProposedKeys:
    """Keys that belong together. `holds`: the host is so, and apply would change nothing.

    Without keys the reason is a note for a person, who writes them.
    """

    keys: Mapping[str, object]
    reason: str
    holds: bool = False


def propose(
    snapshot: HostSnapshot, catalog: Catalog, choose_driver: Callable[[], Choice | None]
) -> tuple[ProposedKeys, ...]:
    """What was declared, what is there, and every line that doctor would have declared."""
    state = snapshot[RIGOPS_STATE].or_empty
    declared = tuple(_declared(state))
    known = {key for one in declared for key in one.keys}
    there = (one for one in _there(snapshot, catalog) if not known & one.keys.keys())
    entries = (*declared, *there)
    known |= {key for one in entries for key in one.keys}
    notes = tuple(_to_fill_in(state, known))
    holds = {key: value for one in entries if one.holds for key, value in one.keys.items()}
    spec, _ = examine_spec(holds, registry.keys())
    found = examine(snapshot, spec, catalog, choose_driver=choose_driver)
    suggested = tuple(suggest(unexplained(*put_together(found, snapshot, catalog))))
    asks_for_driver = spec.driver is None and not any("driver" in one.keys for one in suggested)
    choice = choose_driver() if asks_for_driver else None
    backups = () if "snapshots" in known else _snapshots(snapshot)
    return (*entries, *notes, *suggested, *(_kept(choice) if choice else ()), *backups)


def accept(entries: Iterable[ProposedKeys]) -> tuple[ProposedKeys, ...]:
    """All of them declared, each key once: what is suggested outweighs what is there."""
    suggested_first = sorted(entries, key=lambda one: one.holds)
    left = collect(one.keys for one in suggested_first)
    accepted = []
    for one in suggested_first:
        keys = {key: left.pop(key) for key in one.keys if key in left}
        if keys or not one.keys:
            accepted.append(ProposedKeys(keys, one.reason, holds=bool(keys)))
    return tuple(accepted)


def _kept(choice: Choice) -> Iterator[ProposedKeys]:
    """A driver with which nothing is wrong: declared, it stays."""
    if choice.declare and choice.recommended:
        yield ProposedKeys(choice.declare, choice.recommended.why)


def _snapshots(snapshot: HostSnapshot) -> Iterator[ProposedKeys]:
    found = snapshot[FILE_SYSTEMS].or_empty
    if value := snapshots.suggest(found):
        keys = {"snapshots": value}
        spec, problems = examine_spec(keys, registry.keys())
        if not problems and spec.snapshots and not any(snapshots.blockers(spec.snapshots, found)):
            yield ProposedKeys(keys, "two btrfs disks: snapshots of one can be sent to the other")


def suggest(findings: Iterable[Finding]) -> Iterator[ProposedKeys]:
    """What apply would fix once it is declared; the first finding of each line says why."""
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
    known = registry.keys()
    # Who owns the host wrote this: nothing in it says what is on this machine.
    written = {name: one for name, one in found.items() if not _stays_here(name)}
    for name, value in (recorded.parts if recorded else {}).items():
        parts = known[name].recorded_parts if name in known else ()
        if parts and isinstance(value, Mapping):
            written[name] = {part: one for part, one in value.items() if part in parts}
    spec, _ = examine_spec({name: one for name, one in written.items() if name in known}, known)
    able = {None, *registry.names_in_this_version()}
    when = f", on {recorded.at[:10]}" if recorded else ""
    for name in sorted(spec.declared):
        acts = registry.concern_of(name) in able
        unable = "" if acts else "; this version cannot act on it"
        reason = f"declared when apply changed this host last{when}{unable}"
        yield ProposedKeys({name: written[name]}, reason, holds=acts)


def _to_fill_in(state: RigopsState, known: Collection[str]) -> Iterator[ProposedKeys]:
    """Notes of what was declared and cannot be read from the host. `known`: keys that can."""
    recorded = readable(DeclaredKeys.from_json, state.records.get(declared.PATH))
    left_out = [one for one in (recorded.left_out if recorded else ()) if _stays_here(one)]
    for name in left_out:
        key, _, part = name.partition(".")
        words = f'"{part}" of "{key}"' if part else f'"{key}"'
        yield ProposedKeys({}, f"fill in {words}: it was declared, and no host has its value")
    given = {*known, *(one.partition(".")[0] for one in left_out)}
    for concern in sorted(_owning(state)):
        names = [key.name for key in registry.concern(concern).keys]
        if given.isdisjoint(names):
            words = " or ".join(f'"{name}"' for name in names)
            yield ProposedKeys({}, f"fill in {words}: rigops set it up, and plan would undo it")


def _stays_here(name: str) -> bool:
    key, _, part = name.partition(".")
    known = registry.keys().get(key)
    return known is not None and known.stays_here and part not in known.recorded_parts


def _owning(state: RigopsState) -> set[str]:
    """Concerns that have files of rigops there."""
    try:
        files = Ownership.from_state(state).files
    except RigopsError:  # doctor says so
        return set()
    known = {one.name for one in registry.CONCERNS}
    return {one.concern for one in files.values()} & known


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
