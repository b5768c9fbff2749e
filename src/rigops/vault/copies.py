"""Which of the controller's copies a host refers to: a file for each beside them.

Ten hosts may share a copy, of several inventories. So what one host does not refer to any more goes
only if no other does, by these files and by the lock.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rigops import atomic_file, json_fields
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from rigops.json_fields import Fields
    from rigops.vault.kept import KeptSet
    from rigops.vault.store import Store

SCHEMA: Final = "rigops.copies/1"

_MODE: Final = 0o644
_SHORT: Final = 12
_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNFIT = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What is kept of a set.

    `signatures`: the document of who signed it, if there is one. `lists`: the files that it names.
    """

    version: str
    at: str
    packages: tuple[tuple[str, str], ...]  # file and digest
    index: str
    signatures: str = ""
    lists: tuple[str, ...] = ()

    @classmethod
    def of(cls, one: KeptSet, signatures: str = "", lists: tuple[str, ...] = ()) -> Copied:
        return cls(
            version=one.version,
            at=one.at,
            packages=tuple((its.file, its.sha256) for its in one.packages),
            index=one.index,
            signatures=signatures,
            lists=lists,
        )

    @property
    def digests(self) -> tuple[str, ...]:
        others = filter(None, (self.index, self.signatures, *self.lists))
        return (*(digest for _, digest in self.packages), *others)


@dataclass(frozen=True)
class Copies:
    """`former`: digests that it referred to before, and that may still be here."""

    sets: tuple[Copied, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def digests(self) -> frozenset[str]:
        return frozenset((*(digest for one in self.sets for digest in one.digests), *self.former))


class Reference:
    """The file of one host. `inventory`: the lock's path, as names are only unique in there."""

    def __init__(self, store: Store, host: str, inventory: Path | None) -> None:
        whole = f"{inventory.absolute() if inventory else ''}\n{host}"
        name = f"{_UNFIT.sub('_', host)}-{sha256(whole.encode()).hexdigest()[:_SHORT]}.json"
        self._store = store
        self._host = host
        self._inventory = str(inventory.absolute()) if inventory else ""
        self.path = store.folder / "hosts" / name

    def read(self) -> Copies:
        """One that cannot be read refers to nothing, so that nothing is freed by it either."""
        try:
            return _read(self.path)
        except (OSError, UnicodeDecodeError, RigopsError):
            return Copies()

    def claim(self, sets: tuple[Copied, ...]) -> None:
        """These come; what was here before is still here."""
        own = self.read().digests
        self._write(Copies(sets, tuple(sorted(own - Copies(sets).digests))))

    def _write(self, copies: Copies) -> None:
        told = {
            "schema": SCHEMA,
            "host": self._host,
            "lock": self._inventory,
            "sets": [_as_json(one) for one in copies.sets],
            "former": list(copies.former),
        }
        try:
            self._store.made(self.path.parent)
            atomic_file.replace(self.path, json.dumps(told, indent=1) + "\n", _MODE)
        except OSError as error:
            raise self._store.unwritable(error) from error

    def freed(self, sets: tuple[Copied, ...], locked: Collection[str]) -> int:
        """The bytes of what neither these sets nor anybody else refers to any more."""
        own = self.read()
        stay = Copies(sets).digests.union(locked)
        try:
            for path in self.path.parent.glob("*.json"):
                if path != self.path:
                    stay |= _read(path).digests
        except (OSError, UnicodeDecodeError, RigopsError):
            return 0  # whatever that one refers to
        freed = sum(self._store.drop(digest) for digest in own.digests - stay)
        self._write(Copies(sets))
        return freed


def _read(path: Path) -> Copies:
    fields = json_fields.parse(path.read_text(encoding="utf-8"), place=str(path))
    fields.require_schema(SCHEMA)
    sets = tuple(_copied(one) for one in fields.each("sets"))
    return Copies(sets, _digests(fields, "former"))


def _as_json(one: Copied) -> dict[str, object]:
    return {
        "version": one.version,
        "at": one.at,
        "packages": [{"file": file, "sha256": digest} for file, digest in one.packages],
        "index": one.index,
        "signatures": one.signatures,
        "lists": list(one.lists),
    }


def _copied(fields: Fields) -> Copied:
    packages = tuple((one.text("file"), one.text("sha256")) for one in fields.each("packages"))
    found = Copied(
        version=fields.text("version"),
        at=fields.time("at"),
        packages=packages,
        index=fields.text("index"),
        signatures=fields.text("signatures"),
        lists=_digests(fields, "lists"),
    )
    _checked(fields, "packages", found.digests)
    return found


def _digests(fields: Fields, name: str) -> tuple[str, ...]:
    return _checked(fields, name, fields.texts(name))


def _checked(fields: Fields, name: str, digests: Iterable[str]) -> tuple[str, ...]:
    """They become names of files that may be removed."""
    found = tuple(digests)
    for one in found:
        if not _DIGEST.fullmatch(one):
            raise fields.wrong(name, one, "a SHA-256 in small hexadecimal digits")
    return found
