"""A folder on the controller with .deb files or NVIDIA's .run files, as a person filled it."""

from __future__ import annotations

import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError
from rigops.probe.package_names import RUN_FILE, RUN_FILE_ARCHITECTURE
from rigops.vault.deb import control
from rigops.vault.index import stanzas
from rigops.vault.pinned_set import RUN_FILE_PREFIX, PinnedPackage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE: Final = 1024 * 1024
_RUN_FILE_HEAD: Final = 64 * 1024  # of the shell script that it begins with
_RUN_FILE_NAME = re.compile(rf"{RUN_FILE_PREFIX}(?P<version>[0-9]+(?:\.[0-9]+){{1,2}})\.run")
_RUN_FILE_LABEL = re.compile(
    rb"NVIDIA Accelerated Graphics Driver for Linux-x86_64 (?P<version>[0-9.]+[0-9])"
)


class Directory:
    def __init__(self, declared: str) -> None:
        self.folder = Path(declared).expanduser()

    @property
    def packages(self) -> tuple[PinnedPackage, ...]:
        return tuple(one for one, _ in self.records)

    @cached_property
    def records(self) -> tuple[tuple[PinnedPackage, Mapping[str, str]], ...]:
        """Every file with its control fields."""
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
    def _files(self) -> tuple[tuple[PinnedPackage, Mapping[str, str], Path], ...]:
        self._there()
        found = [
            _file(path, next(iter(stanzas(control(path))), {}))
            for path in sorted(self.folder.glob("*.deb"))
        ]
        installers = sorted(self.folder.glob("*.run"))
        found += [
            _file(path, self._run_file_record(path, name["version"]))
            for path in installers
            if (name := _RUN_FILE_NAME.fullmatch(path.name))
        ]
        if not found:
            raise self._problem(
                f"{self.folder} on this machine has no .deb files and no NVIDIA driver (.run)",
                f"name a .run file as NVIDIA does: {RUN_FILE_PREFIX}VERSION.run"
                if installers
                else "",
            )
        return tuple(found)

    def _run_file_record(self, path: Path, version: str) -> Mapping[str, str]:
        try:
            with path.open("rb") as file:
                head = file.read(_RUN_FILE_HEAD)
        except OSError as error:
            raise self._problem(f"cannot read {path}: {error.strerror}", "") from error
        # A web page that says why there is no such file is often saved under its name.
        label = _RUN_FILE_LABEL.search(head)
        if not head.startswith(b"#!") or not label or label["version"] != version.encode():
            raise self._problem(
                f"{path} does not begin like NVIDIA's installer of driver {version}",
                "download it again and check it: `sh FILE --check`",
            )
        return {
            "Package": RUN_FILE,
            "Version": version,
            "Architecture": RUN_FILE_ARCHITECTURE,
        }

    def _problem(self, message: str, fix: str) -> RigopsError:
        return RigopsError(
            Problem(message=message, key="driver_source", value=f"dir:{self.folder}", fix=fix)
        )


def _file(path: Path, record: Mapping[str, str]) -> tuple[PinnedPackage, Mapping[str, str], Path]:
    whole, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            whole.update(piece)
            size += len(piece)
    package = PinnedPackage(
        record.get("Package", ""),
        record.get("Version", ""),
        record.get("Architecture", ""),
        whole.hexdigest(),
        size,
    )
    return package, record, path
