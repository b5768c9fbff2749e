"""The vault of this machine: files that are named for their SHA-256, and the hosts that need them.

A file with other content than its name says counts as absent. Hosts of several inventories share
files; beside these is one document for each host with the digests that it needs. A file goes only
when a host that needed it does not need it any more, and no other host does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from rigops import atomic_file, regular_file
from rigops.dataclass import dataclass
from rigops.errors import RigopsError, rigops_error

SCHEMA: Final = "rigops.references/1"

_PIECE: Final = 1024 * 1024
_MOST_BYTES: Final = 16 * 1024 * 1024  # of a document, which has some kilobytes
_SPARE: Final = 256 * 1024 * 1024  # bytes that stay free
_MODE: Final = 0o644
_FOLDER_MODE: Final = 0o755
_SHORT: Final = 12
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    data = Path(environment.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():
        data = Path.home() / ".local" / "share"
    return data / "rigops" / "vault"


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def from_declared(cls, declared: str | None) -> Store:
        """`declared`: the inventory's rigops_vault."""
        return cls(Path(declared).expanduser() if declared else default_folder())

    def place(self, digest: str) -> Path:
        return self.folder / "sha256" / digest[:2] / digest[2:]

    def has(self, digest: str, size: int) -> bool:
        """By its size, which is cheap: users of a file compare its digest."""
        try:
            return self.place(digest).stat().st_size == size
        except OSError:
            return False

    def text(self, digest: str) -> str | None:
        """None: it is absent, or has other content."""
        try:
            data = self.place(digest).read_bytes()
            return data.decode() if sha256(data).hexdigest() == digest else None
        except (OSError, UnicodeDecodeError):
            return None

    def drop(self, digest: str) -> int:
        """The bytes freed."""
        place = self.place(digest)
        try:
            size = place.stat().st_size
            place.unlink()
        except OSError:
            return 0
        return size

    def pieces(self, digest: str) -> Iterator[bytes]:
        with self.place(digest).open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def put(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Store them if they have this digest; else nothing of them stays."""
        place = self.place(digest)
        try:
            self.made(place.parent)
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=place.parent)
        except OSError as error:
            raise self.unwritable(error) from error
        aside = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, _MODE)
                whole = sha256()
                for piece in pieces:
                    whole.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(descriptor)
            if whole.hexdigest() != digest:
                raise rigops_error(
                    message=f"received {whole.hexdigest()} instead of {digest}",
                    fix="Check the connection and the disks, and run this again.",
                )
            aside.replace(place)
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            aside.unlink(missing_ok=True)

    def require_room(self, size: int) -> None:
        """For so many bytes more."""
        try:
            self.made(self.folder)
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise self.unwritable(error) from error
        if free < size + _SPARE:
            raise rigops_error(
                message=f"{amount(size)} are to be fetched to {self.folder}, which has "
                f"{amount(free)} free",
                key="rigops_vault",
                fix="free space there, or declare another folder",
            )

    def size(self) -> int:
        """Of all files in it. Another process may replace or remove one meanwhile."""
        total = 0
        for path in (self.folder / "sha256").glob("*/*"):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def made(self, folder: Path) -> None:
        """Make a folder in it that only this user may write to, whatever the umask is."""
        above = self.folder.parent
        above.mkdir(parents=True, exist_ok=True)
        for one in (*reversed(folder.parents), folder):
            if above in one.parents and not one.is_dir():
                one.mkdir(mode=_FOLDER_MODE, exist_ok=True)

    def unwritable(self, error: OSError) -> RigopsError:
        return rigops_error(
            message=f"cannot store packages in {self.folder}: {error}",
            key="rigops_vault",
            fix="make the folder writable, free space there, or declare another one",
        )


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
        with suppress(OSError, ValueError):  # absent or damaged: the earlier ones are unknown then
            digests = digests | _digests(self.path)
        self._write(digests)

    def reduce_to(self, digests: AbstractSet[str], *, locked: AbstractSet[str]) -> int:
        """Remove files that no host needs, and return their bytes. `locked`: for other hosts.

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


@dataclass(frozen=True, kw_only=True)
class VaultResult:
    """The outcome of storing a proven set: a part of the apply document.

    `host_bytes`: of the proven set. `trouble`: why it is incomplete, or was not fetched.

    `freed_bytes`: of files on this machine that no host needs any more.
    """

    host_bytes: int = 0
    fetched_bytes: int = 0
    folder: str = ""
    trouble: str = ""
    freed_bytes: int = 0

    def __str__(self) -> str:
        if self.trouble:
            return f"vault: {self.trouble}; the next apply tries again"
        new = f" ({amount(self.fetched_bytes)} of it now)" if self.fetched_bytes else ""
        text = f"vault: {amount(self.host_bytes)} on the host, fetched to {self.folder}{new}"
        if self.freed_bytes:
            text += f"; removed {amount(self.freed_bytes)} there that no host needs any more"
        return text


def amount(size: int) -> str:
    return f"{size / 10**6:,.0f} MB" if size >= 10**6 else f"{size / 1000:,.0f} kB"


def _digests(path: Path) -> frozenset[str]:
    """Every digest in the document, which had another form in earlier builds.

    Raises:
        OSError, ValueError: the document is unreadable.
    """
    text = regular_file.read(path, most=_MOST_BYTES).decode()
    json.loads(text)
    return frozenset(_DIGEST.findall(text))
