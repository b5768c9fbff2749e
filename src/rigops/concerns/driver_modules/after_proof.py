"""After a proof: the tree goes to the vault, so that a reinstalled host gets the same one."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops.concerns.concern import Kept
from rigops.concerns.driver_modules.tree import read
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.record import lockfile
from rigops.record.proven import STOCK
from rigops.vault.store import References, Store, VaultResult

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.concern import HostRequest, ProvenHost
    from rigops.concerns.driver_modules.tree import Tree


@dataclass(frozen=True)
class StoredTree:
    """Of the last proof; `digest`: as the lockfile has it."""

    path: Path
    digest: str

    def tree(self) -> Tree | None:
        """None where the vault lost it, or has something else."""
        with suppress(RigopsError):
            found = read(str(self.path))
            return found if found.digest == self.digest else None
        return None


def stored(request: HostRequest) -> StoredTree | None:
    known = request.locked
    if known is None or not known.tree:
        return None
    place = Store.from_declared(request.spec.rigops_vault).place(known.tree)
    return StoredTree(place, known.modules.partition(":")[2])


def keep(host: ProvenHost) -> Kept:
    """A failure here is reported, and fails nothing of what was proven."""
    request, modules = host.request, host.proven.modules
    store = Store.from_declared(request.spec.rigops_vault)
    # A document of its own: that of the driver's packages names all that they need.
    references = References(store, f"{request.name} modules", request.lock)
    if modules == STOCK or request.spec.driver_modules is None:
        if references.path.exists():
            with suppress(RigopsError):
                references.reduce_to(frozenset(), locked=_locked(request))
        return Kept()
    known = request.locked
    in_lock = known.tree if known and known.modules == modules else ""
    try:
        tree = read(request.spec.driver_modules)
        if modules != f"own:{tree.digest}":
            return Kept(tree=in_lock)
        name = in_lock or sha256(tree.archive).hexdigest()
        if not store.has(name, len(tree.archive)):
            name = sha256(tree.archive).hexdigest()
            store.require_room(len(tree.archive))
            references.add(frozenset([name]))
            store.put(name, [tree.archive])
        references.reduce_to(frozenset([name]), locked=_locked(request))
    except RigopsError as error:
        return Kept(tree=in_lock, vault=VaultResult(trouble=str(error)))
    return Kept(tree=name)


def _locked(request: HostRequest) -> frozenset[str]:
    hosts = lockfile.read(request.lock).hosts if request.lock else {}
    return frozenset(one.tree for name, one in hosts.items() if name != request.name and one.tree)
