"""The controller's copies: a folder of files that are named for what is in them.

A file whose content is not what its name says is none: it is fetched again, and never used.
"""

from __future__ import annotations

import os
import tempfile
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
        """By its size, which is cheap: whoever uses a file looks at its content."""
        try:
            return self.place(digest).stat().st_size == size
        except OSError:
            return False

    def data(self, digest: str) -> bytes | None:
        """None: it is not there, or is not what it should be."""
        try:
            data = self.place(digest).read_bytes()
        except OSError:
            return None
        return data if sha256(data).hexdigest() == digest else None

    def text(self, digest: str) -> str | None:
        data = self.data(digest)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None

    def drop(self, digest: str) -> int:
        """The bytes that this makes free."""
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
        """Keep them if they are what they should be; else nothing of them stays."""
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
                        message=f"what came for {digest} is {found}",
                        cure="See that the connection and the disks are sound, and run this again.",
                    )
                )
            aside.replace(place)
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            aside.unlink(missing_ok=True)

    def size(self) -> int:
        """Of all files in it."""
        files = (path for path in (self.folder / "sha256").glob("*/*") if path.is_file())
        return sum(path.stat().st_size for path in files)

    def made(self, folder: Path) -> None:
        """A folder in it, that nobody else may write to, whatever the umask is."""
        above = self.folder.parent
        above.mkdir(parents=True, exist_ok=True)
        for one in (*reversed(folder.parents), folder):
            if above in one.parents and not one.is_dir():
                one.mkdir(mode=_FOLDER_MODE, exist_ok=True)

    def unwritable(self, error: OSError) -> RigopsError:
        return RigopsError(
            Problem(
                message=f"packages cannot be kept in {self.folder}: {error}",
                key="rigops_vault",
                cure="see that the folder can be written and has room, or declare another one",
            )
        )


def _written(file: IO[bytes], pieces: Iterable[bytes]) -> str:
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())
    return whole.hexdigest()
