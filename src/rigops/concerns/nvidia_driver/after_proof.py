"""After a proof: fill the host's vault, fetch its packages to this machine, and say what to lock.

A failure here is reported and retried by the next apply. It never fails what was proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.concerns.concern import HostRequest, Kept, ProvenHost, RootShell
from rigops.concerns.nvidia_driver import record as driver_record
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.driver_facts import VaultAccess
from rigops.errors import Problem, RigopsError
from rigops.packages.request import few
from rigops.probe.package_names import RUN_FILE
from rigops.record import Proven
from rigops.record import lockfile as lock_record
from rigops.vault import fill
from rigops.vault.directory import Directory
from rigops.vault.pinned_set import (
    POOL,
    RECORD,
    PinnedPackage,
    PinnedSet,
    index_digest,
    index_text,
    merged,
    parse,
    with_proven,
)
from rigops.vault.store import References, Store, VaultResult, amount

if TYPE_CHECKING:
    from rigops.transport import Result

_FILL_S: Final = 1800.0
_DEADLINE_S: Final = 120.0
_PIECE_MB: Final = 16  # read by one exec
_REPORT_EVERY_S: Final = 2.0


def vault_access(request: HostRequest) -> VaultAccess:
    known = request.locked
    return VaultAccess(
        sets=known.sets if known else (),
        locked=known.driver.version if known else "",
        store=Store.from_declared(request.spec.rigops_vault),
        back=request.back,
    )


def keep(host: ProvenHost) -> Kept:
    """Where nothing is to be stored, what the lockfile says of the packages stays."""
    records = host.state.records if host.state else {}
    pinned = driver_record.pinned(records.get(driver_record.PATH))
    sets = parse(records.get(RECORD))
    if pinned is None:
        return Kept()
    in_lock = host.request.locked.sets if host.request.locked else ()
    is_locked = in_lock and in_lock[0].version == host.proven.driver.version
    before = in_lock if is_locked else sets
    own = Store.from_declared(host.request.spec.rigops_vault)
    if not host.was_changed and _is_complete(pinned, sets, own):
        return Kept(before)
    try:
        with host.shell("vault") as shell:
            same = in_lock if is_locked else ()
            return _stored(shell, own, host, pinned, sets, if_not=same)
    except RigopsError as error:  # nothing of what was proven
        return Kept(before, VaultResult(trouble=str(error)))


def _is_complete(pinned: PinnedDriver, sets: tuple[PinnedSet, ...], own: Store) -> bool:
    """Whether the pinned driver is in both vaults already, by the records alone."""
    if not sets or sets[0].version != pinned.version:
        return False
    versions = {one.name: one.version for one in sets[0].packages}
    return pinned.packages.items() <= versions.items() and all(
        own.has(one.sha256, one.size) for one in sets[0].packages
    )


def _stored(
    shell: RootShell,
    own: Store,
    host: ProvenHost,
    pinned: PinnedDriver,
    before: tuple[PinnedSet, ...],
    *,
    if_not: tuple[PinnedSet, ...],
) -> Kept:
    """`if_not`: what the lockfile has of this very driver, and keeps where nothing is stored."""
    request, proven = host.request, host.proven
    if pinned.version != proven.driver.version:
        return Kept()
    source = request.spec.driver_source
    folder = Directory(source.directory) if source and source.kind == "dir" else None
    try:
        shell.tell("vault: storing the packages of the driver")
        on_host = _filled(shell, pinned, proven, before, _known(request, before, folder))
    except RigopsError as error:
        return Kept(if_not, VaultResult(trouble=str(error)))
    in_lock = request.locked.sets if request.locked else ()
    # The digests of the first set were just compared; those of others count only from the lockfile.
    kept = on_host[:1] if in_lock else on_host
    sets = merged(kept, in_lock)
    needed = frozenset(digest for one in sets for digest in one.digests)
    references = References(own, request.name, request.lock)
    result = VaultResult(host_bytes=on_host[0].size, folder=str(own.folder))
    try:
        references.add(needed)
        fetched = _fetch(shell, own, folder, sets[0])
    except RigopsError as error:
        return Kept(kept, replace(result, trouble=str(error)))
    # Only a rollback needs the others: a failure to fetch them is no trouble of what was proven.
    with suppress(RigopsError):
        fetched += sum(_fetch(shell, own, folder, one) for one in sets[1:])
    freed = 0
    with suppress(RigopsError):
        hosts = lock_record.read(request.lock).hosts if request.lock else {}
        others = [one for name, its in hosts.items() if name != request.name for one in its.sets]
        locked = frozenset(digest for one in others for digest in one.digests)
        freed = references.reduce_to(needed, locked=locked)
    return Kept(kept, replace(result, fetched_bytes=fetched, freed_bytes=freed))


def _known(
    request: HostRequest, sets: tuple[PinnedSet, ...], folder: Directory | None
) -> Iterable[PinnedPackage]:
    """The digests of the lockfile come before those of the host's record."""
    declared: tuple[PinnedPackage, ...] = ()
    if folder:
        with suppress(RigopsError):
            declared = folder.packages
    in_lock = request.locked.sets if request.locked else ()
    packages = (its for one in (*sets, *in_lock) for its in one.packages)
    return {(one.name, one.version): one for one in (*packages, *declared)}.values()


def _filled(
    shell: RootShell,
    pinned: PinnedDriver,
    proven: Proven,
    sets: tuple[PinnedSet, ...],
    known: Iterable[PinnedPackage],
) -> tuple[PinnedSet, ...]:
    names = sorted({*pinned.packages, *pinned.also, *pinned.beside} - {RUN_FILE})
    text = fill.script(names, known, pinned.packages.get(RUN_FILE, ""))
    done = shell.run(shell.wrap(["sh", "-s"]), text.encode(), _FILL_S)
    if done.exit_code != 0:
        raise _error(f"cannot store the packages on the host: {_stderr(done)}")
    found = fill.parse(done.stdout.decode(errors="replace"))
    has = {one.name: one.version for one in found.packages}
    lacking = [
        f"{name} {version}" for name, version in pinned.packages.items() if has.get(name) != version
    ]
    if lacking:
        why = found.trouble or "in no package source and not in apt's cache"
        raise _error(f"cannot store {few(lacking, 4)}: {why}")
    text = index_text(found.records)
    new = PinnedSet(
        version=pinned.version,
        flavor=pinned.flavor,
        at=proven.at,
        kernel=proven.kernel,
        packages=found.packages,
        index=index_digest(text),
    )
    _require_plausible(new)
    after = with_proven(sets, new)
    record = fill.record_script(after, after[0], text)
    done = shell.run(shell.wrap(["sh", "-s"]), record.encode(), _DEADLINE_S)
    if done.exit_code != 0:
        raise _error(f"cannot write the record of the vault: {_stderr(done)}")
    return after


def _require_plausible(one: PinnedSet) -> None:
    """Sizes are the host's own word."""
    if one.size > fill.MOST_BYTES:
        size, most = amount(one.size), amount(fill.MOST_BYTES)
        raise _error(
            f"driver {one.version} has {size} of packages by the host's word, at most "
            f"{most} are fetched"
        )


def _fetch(shell: RootShell, own: Store, folder: Directory | None, one: PinnedSet) -> int:
    """The bytes that this machine did not have. Files in the declared folder come from there."""
    _require_plausible(one)
    if own.text(one.index) is None:
        own.put(one.index, [_read(shell, one.index_file, 0)])
    lacking = [its for its in one.packages if not own.has(its.sha256, its.size)]
    remote = [its for its in lacking if not _is_put_from(folder, its, own)]
    size = sum(its.size for its in remote)
    own.require_room(size)
    progress = _Progress(shell, size)
    for its in remote:
        own.put(its.sha256, _pieces(shell, its, progress))
    return sum(its.size for its in lacking)


def _is_put_from(folder: Directory | None, one: PinnedPackage, own: Store) -> bool:
    """An unreadable folder is no trouble: the host has the package too."""
    with suppress(RigopsError, OSError):
        if folder and any(its.sha256 == one.sha256 for its in folder.packages):
            own.put(one.sha256, folder.pieces(one.sha256))
            return True
    return False


class _Progress:
    def __init__(self, shell: RootShell, whole: int) -> None:
        self._shell = shell
        self._whole = whole
        self._size = 0
        self._reported_at = time.monotonic()

    def add(self, size: int) -> None:
        self._size += size
        if time.monotonic() - self._reported_at > _REPORT_EVERY_S:
            self._reported_at = time.monotonic()
            self._shell.tell(f"vault: fetched {amount(self._size)} of {amount(self._whole)}")


def _pieces(shell: RootShell, one: PinnedPackage, progress: _Progress) -> Iterator[bytes]:
    path, most = f"{POOL}/{one.file}", _PIECE_MB << 20
    for number in range(-(-one.size // most) or 1):
        piece = _read(shell, path, number)
        if len(piece) != min(most, one.size - number * most):
            raise _error(f"{path} on the host has not the {one.size} bytes that were named")
        progress.add(len(piece))
        yield piece


def _read(shell: RootShell, path: str, number: int) -> bytes:
    words = ("bs=1048576", f"skip={number * _PIECE_MB}", f"count={_PIECE_MB}")
    done = shell.run(["dd", f"if={path}", *words], b"", _DEADLINE_S)
    if done.exit_code != 0 or done.stdout_dropped:
        raise _error(f"cannot read {path} on the host: {_stderr(done)}")
    return done.stdout


def _error(text: str) -> RigopsError:
    return RigopsError(Problem(message=text))


def _stderr(done: Result) -> str:
    return " ".join(done.stderr.decode(errors="replace").split()) or f"exit {done.exit_code}"
