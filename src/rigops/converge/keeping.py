"""After a proof: the host keeps its driver's packages, this machine copies of them, and the lock.

Whatever goes wrong here is told, and tried again by the next apply; it never fails what was proven.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rigops.converge import signing
from rigops.converge.fetching import Fetching, amount, is_fetched
from rigops.converge.troubles import DeployError
from rigops.errors import RigopsError
from rigops.operations.driver_vault import Shelf
from rigops.probe.package_names import RUN_FILE
from rigops.record import driver as driver_record
from rigops.record import lock as lock_record
from rigops.record.lock import locked
from rigops.vault import filling, index
from rigops.vault.copies import Copied, Copies, Reference
from rigops.vault.directory import Directory
from rigops.vault.kept import KEPT, RECORD, KeptSet, kept, with_proven
from rigops.vault.signatures import Signatures
from rigops.vault.signatures import document as signatures_document
from rigops.vault.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rigops.converge.connector import Seat
    from rigops.converge.seeing import Sight
    from rigops.converge.wanted import Wanted
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.record import Proven
    from rigops.record.driver import PinnedDriver
    from rigops.record.lock import LockedHost
    from rigops.vault.kept import KeptPackage

_FILL_S: Final = 1800.0
_DEADLINE_S: Final = 120.0
_SHOWN: Final = 4


@dataclass(frozen=True, kw_only=True)
class VaultKept:
    """`host_bytes` are of the proven set. `trouble`: why it is not whole, or was not fetched.

    `freed_bytes`: of copies that no host refers to any more. `unsigned`: packages that nobody
    signed, by their files; `doubts`: of which what an archive signed could not be found to be true.
    """

    host_bytes: int = 0
    fetched_bytes: int = 0
    folder: str = ""
    trouble: str = ""
    freed_bytes: int = 0
    unsigned: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.trouble:
            return f"vault: {self.trouble}; the next apply tries again"
        new = f" ({amount(self.fetched_bytes)} of it now)" if self.fetched_bytes else ""
        text = f"vault: {amount(self.host_bytes)} on the host, fetched to {self.folder}{new}"
        if self.freed_bytes:
            text += f"; {amount(self.freed_bytes)} there that no host needs any more were freed"
        if self.unsigned:
            text += f"; not signed by anybody that the host knows: {_few(self.unsigned)}"
        if self.doubts:
            text += f"; what an archive signed does not prove all of them: {_few(self.doubts)}"
        return text


@dataclass(frozen=True)
class Kept:
    """`vault` is None where there was nothing to do."""

    lock: LockedHost
    vault: VaultKept | None = None


@dataclass(frozen=True)
class _Full:
    """A host's vault once it is filled. `signatures` by their files; `trouble` with them."""

    sets: tuple[KeptSet, ...]
    signatures: Mapping[str, Signatures] = field(default_factory=dict)
    trouble: str = ""

    def of(self, one: KeptSet) -> Signatures:
        return self.signatures.get(one.signatures_file, Signatures())


def store(wanted: Wanted) -> Store:
    return Store.of(wanted.spec.rigops_vault)


def shelf(wanted: Wanted) -> Shelf:
    """What this machine knows of the packages that a host was proven with."""
    known = wanted.locked
    return Shelf(
        sets=known.sets if known else (),
        locked=known.version if known else "",
        store=store(wanted),
        back=wanted.back,
    )


def is_whole(state: RigopsState | None, own: Store) -> bool:
    """Whether what is pinned is kept already, by the records alone."""
    pinned, sets = _records(state)
    if pinned is None:
        return True
    return bool(sets) and _has(sets[0], pinned) and is_fetched(sets[0].packages, own)


def as_kept(seen: Sight, proven: Proven, wanted: Wanted) -> Kept:
    """Nothing of it was changed by this run: what the lock says already stands."""
    pinned, sets = _records(seen.state)
    before = wanted.locked
    if before and before.sets and before.sets[0].version == proven.driver.version:
        sets = before.sets
    return Kept(locked(proven, sets if pinned else ()))


def not_kept(seen: Sight, proven: Proven, wanted: Wanted, trouble: str) -> Kept:
    return replace(as_kept(seen, proven, wanted), vault=VaultKept(trouble=trouble))


def keep(seat: Seat, seen: Sight, proven: Proven, wanted: Wanted) -> Kept:
    pinned, sets = _records(seen.state)
    if pinned is None or pinned.version != proven.driver.version:
        return Kept(locked(proven, ()))
    fetching = Fetching(seat, store(wanted), _folder(wanted))
    try:
        seat.tell("vault: the packages of the driver are kept")
        full = _filled(seat, pinned, proven, sets, _known(wanted, sets, fetching.near))
    except (RigopsError, DeployError) as error:
        return Kept(locked(proven, ()), VaultKept(trouble=str(error)))
    first = full.sets[0]
    lock = locked(proven, _vouched(full.sets, wanted.locked))
    kept = VaultKept(
        host_bytes=first.size,
        folder=str(fetching.own.folder),
        unsigned=signing.unsigned(full.of(first), first.packages),
        doubts=(full.trouble,) if full.trouble else (),
    )
    reference = Reference(fetching.own, wanted.name, wanted.lock)
    copied = _copied(full, _still_locked(lock, wanted), reference.read())
    try:
        reference.claim(copied)
        fetched = sum(fetching.packages(first))
    except (RigopsError, DeployError) as error:
        return Kept(lock, replace(kept, trouble=str(error)))
    try:
        fetched += sum(fetching.lists(first, full.of(first)))
        doubts = signing.doubts(full.of(first), first.packages, fetching.own)
    except (RigopsError, DeployError) as error:
        doubts = (str(error),)
    # What a rollback would take: good to have here, and no trouble of what was proven now.
    with suppress(RigopsError, DeployError):
        for one in full.sets[1:]:
            fetched += sum(fetching.packages(one))
            fetched += sum(fetching.lists(one, full.of(one)))
    freed = 0
    with suppress(RigopsError):
        freed = reference.freed(copied, _locked_elsewhere(wanted))
    kept = replace(kept, fetched_bytes=fetched, freed_bytes=freed, doubts=(*kept.doubts, *doubts))
    return Kept(lock, kept)


def _copied(full: _Full, still: Iterable[KeptSet], before: Copies) -> tuple[Copied, ...]:
    """All that a rollback may want, with who signed it as far as that is known."""
    known = {one.index: one for one in before.sets}
    found: list[Copied] = []
    for one in full.sets:
        signed = full.of(one)
        if not signed.packages and one.index in known:
            found.append(known[one.index])  # the host lost what it had of it
            continue
        document = index.digest(signatures_document(signed, one.packages))
        found.append(Copied.of(one, document, tuple(dict.fromkeys(signed.files))))
    have = {one.index for one in full.sets}
    found += [known.get(one.index) or Copied.of(one) for one in still if one.index not in have]
    return tuple(found)


def _still_locked(lock: LockedHost, wanted: Wanted) -> tuple[KeptSet, ...]:
    """The sets of this host's entry once the lock is written."""
    before = wanted.locked.sets if wanted.locked else ()
    older = (one for one in before if not any(one.is_same(its) for its in lock.sets))
    return (*lock.sets, *older)[:KEPT]


def _locked_elsewhere(wanted: Wanted) -> frozenset[str]:
    """The digests of what the lock says of other hosts."""
    hosts = lock_record.read(wanted.lock).hosts if wanted.lock else {}
    sets = [one for name, host in hosts.items() if name != wanted.name for one in host.sets]
    return frozenset(digest for one in sets for digest in Copied.of(one).digests)


def _vouched(sets: tuple[KeptSet, ...], before: LockedHost | None) -> tuple[KeptSet, ...]:
    """The digests of the first were just looked at; of others the lock knows them, not the host."""
    return sets[:1] if before and before.sets else sets


def _records(state: RigopsState | None) -> tuple[PinnedDriver | None, tuple[KeptSet, ...]]:
    records = state.records if state else {}
    return (
        driver_record.pinned(records.get(driver_record.PATH)),
        kept(records.get(RECORD)),
    )


def _folder(wanted: Wanted) -> Directory | None:
    source = wanted.spec.driver_source
    return Directory(source.directory) if source and source.kind == "dir" else None


def _known(
    wanted: Wanted, sets: tuple[KeptSet, ...], folder: Directory | None
) -> Iterable[KeptPackage]:
    """What the lock says of a digest comes before what stands beside the packages."""
    declared: tuple[KeptPackage, ...] = ()
    if folder:
        with suppress(RigopsError):
            declared = folder.packages
    locked_sets = wanted.locked.sets if wanted.locked else ()
    packages = (its for one in (*sets, *locked_sets) for its in one.packages)
    return {(one.name, one.version): one for one in (*packages, *declared)}.values()


def _filled(
    seat: Seat,
    pinned: PinnedDriver,
    proven: Proven,
    sets: tuple[KeptSet, ...],
    known: Iterable[KeptPackage],
) -> _Full:
    names = sorted({*pinned.packages, *pinned.also} - {RUN_FILE})
    text = filling.script(names, known, pinned.packages.get(RUN_FILE, ""))
    done = seat.run(seat.wrap(["sh", "-s"]), text.encode(), _FILL_S)
    if done.exit_code != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"the packages could not be kept: {said or 'nobody said why'}")
    found = filling.parse(done.stdout.decode(errors="replace"))
    has = {one.name: one.version for one in found.packages}
    lacking = [
        f"{name} {version}" for name, version in pinned.packages.items() if has.get(name) != version
    ]
    if lacking:
        raise DeployError(_lacks(lacking, found.trouble))
    text = index.text_of(found.records)
    new = KeptSet(
        version=pinned.version,
        flavour=pinned.flavour,
        at=proven.at,
        kernel=proven.kernel,
        packages=found.packages,
        index=index.digest(text),
    )
    after = with_proven(sets, new)
    asked = signing.asked(seat, found)
    signatures = {**found.signatures, after[0].signatures_file: asked.signatures}
    record = filling.writing(after, after[0], text, signatures)
    done = seat.run(seat.wrap(["sh", "-s"]), record.encode(), _DEADLINE_S)
    if done.exit_code != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"the record of the vault could not be written: {said}")
    return _Full(after, signatures, asked.trouble)


def _has(one: KeptSet, pinned: PinnedDriver) -> bool:
    there = {its.name: its.version for its in one.packages}
    return one.version == pinned.version and all(
        there.get(name) == version for name, version in pinned.packages.items()
    )


def _lacks(lacking: Sequence[str], trouble: str) -> str:
    why = trouble or "no package source and no cache of apt's has it"
    return f"{_few(lacking)} could not be kept: {why}"


def _few(words: Sequence[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return f"{', '.join(words[:_SHOWN])}{more}"
