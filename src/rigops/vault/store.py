"""The vault of this machine: a folder of files that are named for their SHA-256.

A file with other content than its name says counts as absent.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PIECE: Final = 1024 * 1024
_MODE: Final = 0o644
_FOLDER_MODE: Final = 0o755


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    data = Path(environment.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():
        data = Path.home() / ".local" / "share"
    return data / "rigops" / "vault"


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, declared: str | None) -> Store:
        """`declared`: the inventory's rigops_vault."""
        return cls(Path(declared).expanduser() if declared else default_folder())

    def place(self, digest: str) -> Path:
        return self.folder / "sha256" / digest[:2] / digest[2:]

    def has(self, digest: str, size: int) -> bool:
        """By its size, which is cheap: whoever uses a file compares its digest."""
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
                found = _written(file, pieces)
            if found != digest:
                raise RigopsError(
                    Problem(
                        message=f"received {found} instead of {digest}",
                        fix="Check the connection and the disks, and run this again.",
                    )
                )
            aside.replace(place)
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            aside.unlink(missing_ok=True)

    def size(self) -> int:
        """Of all files in it. Another process may replace or remove one meanwhile."""
        total = 0
        for path in (self.folder / "sha256").glob("*/*"):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def made(self, folder: Path) -> None:
        """Make a folder in it that nobody else may write to, whatever the umask is."""
        above = self.folder.parent
        above.mkdir(parents=True, exist_ok=True)
        for one in (*reversed(folder.parents), folder):
            if above in one.parents and not one.is_dir():
                one.mkdir(mode=_FOLDER_MODE, exist_ok=True)

    def unwritable(self, error: OSError) -> RigopsError:
        return RigopsError(
            Problem(
                message=f"cannot store packages in {self.folder}: {error}",
                key="rigops_vault",
                fix="make the folder writable, free space there, or declare another one",
            )
        )


def amount(size: int) -> str:
    return f"{size / 10**6:,.0f} MB" if size >= 10**6 else f"{size / 1000:,.0f} kB"


def _written(file: IO[bytes], pieces: Iterable[bytes]) -> str:
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())
    return whole.hexdigest()
