"""Which files of the store a host needs: one document for each host, beside the files.

Hosts of several inventories share files. A file goes only when a host that needed it does not need
it any more, and no other host does.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rigops import atomic_file

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from rigops.vault.store import Store

SCHEMA: Final = "rigops.references/1"

_MODE: Final = 0o644
_SHORT: Final = 12
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


class References:
    """`lockfile`: names of hosts are unique in one inventory only."""

    def __init__(self, store: Store, host: str, lockfile: Path | None) -> None:
        self._store = store
        self._host = host
        self._lockfile = str(lockfile.absolute()) if lockfile else ""
        whole = f"{self._lockfile}\n{host}"
        name = f"{_UNSAFE.sub('_', host)}-{sha256(whole.encode()).hexdigest()[:_SHORT]}.json"
        self.path = store.folder / "hosts" / name

    def add(self, digests: AbstractSet[str]) -> None:
        """Before the files come, so that no other host's run removes them meanwhile."""
        with suppress(OSError, ValueError):  # absent or damaged: then nothing is known of before
            digests = digests | _digests(self.path)
        self._write(digests)

    def reduce_to(self, digests: AbstractSet[str], *, locked: AbstractSet[str]) -> int:
        """Remove what nobody needs any more, and return its bytes. `locked`: for other hosts.

        Nothing is removed while the document of another host cannot be read.
        """
        try:
            own = _digests(self.path)
            others = [
                _digests(path) for path in self.path.parent.glob("*.json") if path != self.path
            ]
        except (OSError, ValueError):
            return 0
        freed = sum(self._store.drop(one) for one in own.difference(digests, locked, *others))
        self._write(digests)
        return freed

    def _write(self, digests: AbstractSet[str]) -> None:
        document = {
            "schema": SCHEMA,
            "host": self._host,
            "lock": self._lockfile,
            "digests": sorted(digests),
        }
        try:
            self._store.made(self.path.parent)
            atomic_file.replace(self.path, json.dumps(document, indent=1) + "\n", _MODE)
        except OSError as error:
            raise self._store.unwritable(error) from error


def _digests(path: Path) -> frozenset[str]:
    """Every digest in the document, which had another form in earlier builds.

    Raises:
        OSError, ValueError: the document is unreadable.
    """
    text = path.read_text(encoding="utf-8")
    json.loads(text)
    return frozenset(_DIGEST.findall(text))
