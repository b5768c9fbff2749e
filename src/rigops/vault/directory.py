"""A folder on the controller with .deb or .run files, as somebody put them there."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError
from rigops.vault import run_file
from rigops.vault.deb import control
from rigops.vault.index import stanzas
from rigops.vault.kept import CALLED, KeptPackage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE: Final = 1024 * 1024


class Directory:
    def __init__(self, declared: str) -> None:
        self.folder = Path(declared).expanduser()

    @property
    def packages(self) -> tuple[KeptPackage, ...]:
        return tuple(one for one, _ in self.records)

    @cached_property
    def records(self) -> tuple[tuple[KeptPackage, Mapping[str, str]], ...]:
        """Every file with what it says of itself; the digests are made of what is there."""
        return tuple((one, record) for one, record, _ in self._files)

    def pieces(self, digest: str) -> Iterator[bytes]:
        path = next(path for one, _, path in self._files if one.sha256 == digest)
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def _there(self) -> None:
        if self.folder.is_dir():
            return
        is_file = self.folder.is_file()
        raise self._problem(
            f"{self.folder} is {'a file' if is_file else 'no folder'} on this machine",
            f'declare the folder that it is in: "dir:{self.folder.parent}"' if is_file else "",
        )

    @cached_property
    def _files(self) -> tuple[tuple[KeptPackage, Mapping[str, str], Path], ...]:
        self._there()
        packages = sorted(self.folder.glob("*.deb"))
        installers = sorted(self.folder.glob("*.run"))
        found = (
            *(_file(path, next(iter(stanzas(control(path))), {})) for path in packages),
            *(
                _file(path, self._said(path))
                for path in installers
                if run_file.version_of(path.name)
            ),
        )
        if not found:
            raise self._problem(
                f"{self.folder} on this machine has no .deb files and no driver of NVIDIA's in it",
                f"a .run file is called {CALLED}VERSION.run, as NVIDIA has it"
                if installers
                else "",
            )
        return found

    def _said(self, path: Path) -> Mapping[str, str]:
        version = run_file.version_of(path.name)
        try:
            with path.open("rb") as file:
                head = file.read(run_file.LONGEST)
        except OSError as error:
            raise self._problem(f"{path} cannot be read: {error.strerror}", "") from error
        if not run_file.is_one(head, version):
            raise self._problem(
                f"{path} does not begin as NVIDIA's installer of driver {version} does",
                "download it again, and look at it: `sh FILE --check`",
            )
        return run_file.record(version)

    def _problem(self, message: str, cure: str) -> RigopsError:
        return RigopsError(
            Problem(message=message, key="driver_source", value=f"dir:{self.folder}", cure=cure)
        )


def _file(path: Path, record: Mapping[str, str]) -> tuple[KeptPackage, Mapping[str, str], Path]:
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
