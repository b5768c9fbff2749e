"""A folder of .deb files on the controller, as somebody put them there."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError
from rigops.vault.deb import control
from rigops.vault.index import stanzas
from rigops.vault.kept import KeptPackage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE: Final = 1024 * 1024
_NO_RUN_FILES: Final = (
    "a .run file is not installed from there in this version: nothing could keep what it brings at "
    "its version; put the distribution's packages of that version there"
)


class Directory:
    def __init__(self, declared: str) -> None:
        self.folder = Path(declared).expanduser()

    @property
    def packages(self) -> tuple[KeptPackage, ...]:
        return tuple(one for one, _ in self.records)

    @cached_property
    def records(self) -> tuple[tuple[KeptPackage, Mapping[str, str]], ...]:
        """Every package with what it says of itself; the digests are made of what is there."""
        return tuple((one, record) for one, record, _ in self._files)

    def pieces(self, digest: str) -> Iterator[bytes]:
        path = next(path for one, _, path in self._files if one.sha256 == digest)
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    @cached_property
    def _files(self) -> tuple[tuple[KeptPackage, Mapping[str, str], Path], ...]:
        paths = sorted(self.folder.glob("*.deb"))
        if not paths:
            has_installer = any(self.folder.glob("*.run"))
            raise RigopsError(
                Problem(
                    message=f"{self.folder} on this machine has no .deb files in it",
                    key="driver_source",
                    value=f"dir:{self.folder}",
                    cure=_NO_RUN_FILES if has_installer else "",
                )
            )
        return tuple(_file(path) for path in paths)


def _file(path: Path) -> tuple[KeptPackage, Mapping[str, str], Path]:
    record = next(iter(stanzas(control(path))), {})
    whole, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            whole.update(piece)
            size += len(piece)
    package = KeptPackage(
        record.get("Package", ""),
        record.get("Version", ""),
        record.get("Architecture", ""),
        whole.hexdigest(),
        size,
    )
    return package, record, path
