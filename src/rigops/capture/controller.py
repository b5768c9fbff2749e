"""This machine's data of a host: its driver's packages, its key, its passphrase."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.vault.borg_keys import has_key, key_place
from rigops.vault.pinned_set import PinnedPackage, PinnedSet
from rigops.vault.store import Store

_TREE: Final = "the tree of driver_modules"


@dataclass(frozen=True, kw_only=True)
class Passphrase:
    """`state`: opened the repository; refused by it; not to be had here; not tried.

    `key`: SHA-256 of the repository's key as it is now. `is_absent`: the repository's disk is.
    """

    state: Literal["opened", "refused", "absent", "untried"] = "untried"
    why: str = ""
    fix: str = ""
    key: str = ""
    is_absent: bool = False


@dataclass(frozen=True, kw_only=True)
class Controller:
    """`missing`: packages that are not in the vault, `damaged`: that have other content.

    `key`: where the key of the repository is; `key_digest`: of its content.
    """

    vault: Path
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    has_index: bool = True
    key: Path | None = None
    key_digest: str = ""
    passphrase: Passphrase = Passphrase()


def look(
    store: Store,
    host: str,
    pinned: PinnedSet | None,
    repository: str,
    passphrase: Passphrase,
    *,
    tree: str = "",
) -> Controller:
    """Reads every package whole, since a file with other content counts as absent.

    `repository`: its id; empty where there is none. `tree`: the file with the owner's modules.
    """
    packages = pinned.packages if pinned else ()
    missing = [one for one in packages if not store.has(one.sha256, one.size)]
    damaged = [one for one in packages if one not in missing and not _is_whole(store, one.sha256)]
    lost = (_TREE,) if tree and not _is_whole(store, tree) else ()
    has_own_key = bool(repository) and has_key(store, host, repository)
    key = key_place(store, host, repository) if has_own_key else None
    return Controller(
        vault=store.folder,
        missing=(*_names(missing), *lost),
        damaged=_names(damaged),
        has_index=pinned is None or store.text(pinned.index) is not None,
        key=key,
        key_digest=sha256(key.read_text().strip().encode()).hexdigest() if key else "",
        passphrase=passphrase,
    )


def _is_whole(store: Store, name: str) -> bool:
    digest = sha256()
    try:
        for piece in store.pieces(name):
            digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == name


def _names(packages: Iterable[PinnedPackage]) -> tuple[str, ...]:
    return tuple(f"{one.name} {one.version}" for one in packages)
