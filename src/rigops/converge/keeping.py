"""After a proof: the host keeps its driver's packages, this machine copies of them, and the lock.

Whatever goes wrong here is told, and tried again by the next apply; it never fails what was proven.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rigops.converge.troubles import DeployError
from rigops.errors import RigopsError
from rigops.operations.driver_vault import Shelf
from rigops.record import driver as driver_record
from rigops.record.lock import locked
from rigops.vault import filling, index
from rigops.vault.directory import Directory
from rigops.vault.kept import POOL, RECORD, KeptSet, kept, with_proven
from rigops.vault.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_AT_ONCE_MB: Final = 16  # read by one exec
_TOLD_EVERY_S: Final = 2.0
_SHOWN: Final = 4


@dataclass(frozen=True, kw_only=True)
class VaultKept:
    """`host_bytes` are of the proven set. `trouble`: why it is not whole, or was not fetched."""

    host_bytes: int = 0
    fetched_bytes: int = 0
    folder: str = ""
    trouble: str = ""

    def __str__(self) -> str:
        if self.trouble:
            return f"vault: {self.trouble}; the next apply tries again"
        new = f" ({_mb(self.fetched_bytes)} of it now)" if self.fetched_bytes else ""
        return f"vault: {_mb(self.host_bytes)} on the host, fetched to {self.folder}{new}"


@dataclass(frozen=True)
class Kept:
    """`vault` is None where there was nothing to do."""

    lock: LockedHost
    vault: VaultKept | None = None


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
    return bool(sets) and _has(sets[0], pinned) and _is_fetched(sets[0], own)


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
    own = store(wanted)
    try:
        seat.tell("vault: the packages of the driver are kept")
        sets = _filled(seat, pinned, proven, sets, _known(wanted, sets))
    except (RigopsError, DeployError) as error:
        return Kept(locked(proven, ()), VaultKept(trouble=str(error)))
    lock = locked(proven, _vouched(sets, wanted.locked))
    kept = VaultKept(host_bytes=sets[0].size, folder=str(own.folder))
    try:
        fetched = sum(_fetched(seat, sets[0], own))
    except (RigopsError, DeployError) as error:
        return Kept(lock, replace(kept, trouble=str(error)))
    # What a rollback would take: good to have here, and no trouble of what was proven now.
    with suppress(RigopsError, DeployError):
        fetched += sum(size for one in sets[1:] for size in _fetched(seat, one, own))
    return Kept(lock, replace(kept, fetched_bytes=fetched))


def _vouched(sets: tuple[KeptSet, ...], before: LockedHost | None) -> tuple[KeptSet, ...]:
    """The digests of the first were just looked at; of others the lock knows them, not the host."""
    return sets[:1] if before and before.sets else sets


def _records(state: RigopsState | None) -> tuple[PinnedDriver | None, tuple[KeptSet, ...]]:
    records = state.records if state else {}
    return (
        driver_record.pinned(records.get(driver_record.PATH)),
        kept(records.get(RECORD)),
    )


def _known(wanted: Wanted, sets: tuple[KeptSet, ...]) -> Iterable[KeptPackage]:
    """What the lock says of a digest comes before what stands beside the packages."""
    source = wanted.spec.driver_source
    declared: tuple[KeptPackage, ...] = ()
    if source and source.kind == "dir":
        with suppress(RigopsError):
            declared = Directory(source.directory).packages
    locked_sets = wanted.locked.sets if wanted.locked else ()
    packages = (its for one in (*sets, *locked_sets) for its in one.packages)
    return {(one.name, one.version): one for one in (*packages, *declared)}.values()


def _filled(
    seat: Seat,
    pinned: PinnedDriver,
    proven: Proven,
    sets: tuple[KeptSet, ...],
    known: Iterable[KeptPackage],
) -> tuple[KeptSet, ...]:
    text = filling.script(sorted({*pinned.packages, *pinned.also}), known)
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
    done = seat.run(
        seat.wrap(["sh", "-s"]), filling.writing(after, after[0], text).encode(), _DEADLINE_S
    )
    if done.exit_code != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"the record of the vault could not be written: {said}")
    return after


def _fetched(seat: Seat, one: KeptSet, own: Store) -> Iterator[int]:
    """The bytes of each file that was not here yet."""
    lacking = [its for its in one.packages if not own.has(its.sha256, its.size)]
    whole = sum(its.size for its in lacking)
    come = 0
    told_at = time.monotonic()

    def pieces(path: str, size: int) -> Iterator[bytes]:
        nonlocal come, told_at
        for number in range(-(-size // (_AT_ONCE_MB << 20)) or 1):
            if time.monotonic() - told_at > _TOLD_EVERY_S:
                told_at = time.monotonic()
                seat.tell(f"vault: {_mb(come)} of {_mb(whole)} fetched")
            piece = _read(seat, path, number)
            come += len(piece)
            yield piece

    if own.text(one.index) is None:
        own.put(one.index, [_read(seat, one.index_file, 0)])
    for its in lacking:
        own.put(its.sha256, pieces(f"{POOL}/{its.file}", its.size))
        yield its.size


def _read(seat: Seat, path: str, number: int) -> bytes:
    words = ("bs=1048576", f"skip={number * _AT_ONCE_MB}", f"count={_AT_ONCE_MB}")
    done = seat.run(["dd", f"if={path}", *words], b"", _DEADLINE_S)
    if done.exit_code != 0 or done.stdout_dropped:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"{path} could not be read: {said}")
    return done.stdout


def _has(one: KeptSet, pinned: PinnedDriver) -> bool:
    there = {its.name: its.version for its in one.packages}
    return one.version == pinned.version and all(
        there.get(name) == version for name, version in pinned.packages.items()
    )


def _is_fetched(one: KeptSet, own: Store) -> bool:
    return all(own.has(its.sha256, its.size) for its in one.packages)


def _lacks(lacking: list[str], trouble: str) -> str:
    more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
    why = trouble or "no package source and no cache of apt's has it"
    return f"{', '.join(lacking[:_SHOWN])}{more} could not be kept: {why}"


def _mb(size: int) -> str:
    return f"{size / 10**6:,.0f} MB" if size >= 10**6 else f"{size / 1000:,.0f} kB"
