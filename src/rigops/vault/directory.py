"""A folder on the controller with .deb files or NVIDIA's .run files, as a person filled it.

A .deb file is an ar archive with a compressed tar of the control fields in it. It is read without
dpkg: a controller may be no Debian.
"""

from __future__ import annotations

import gzip
import importlib
import io
import lzma
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from rigops.errors import RigopsError, rigops_error
from rigops.probe.package_names import RUN_FILE, RUN_FILE_ARCHITECTURE
from rigops.vault.pinned_set import RUN_FILE_PREFIX, PinnedPackage, stanzas

_PIECE: Final = 1024 * 1024
_AR_MAGIC: Final = b"!<arch>\n"
_AR_HEADER: Final = 60
_CONTROL: Final = "control.tar"
_LONGEST_CONTROL: Final = 16 * 1024 * 1024  # real ones have some kilobytes
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

    @cached_property
    def _files(self) -> tuple[tuple[PinnedPackage, Mapping[str, str], Path], ...]:
        if not self.folder.is_dir():
            is_file = self.folder.is_file()
            raise self._problem(
                f"{self.folder} is {'a file' if is_file else 'no folder'} on this machine",
                f'declare the folder that it is in: "dir:{self.folder.parent}"' if is_file else "",
            )
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
        return rigops_error(
            message=message, key="driver_source", value=f"dir:{self.folder}", fix=fix
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


def control(path: Path) -> str:
    try:
        with path.open("rb") as file:
            unpacked = _control_tar(file)
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
            for one in tar:
                if one.isfile() and one.name.removeprefix("./") == "control":
                    found = tar.extractfile(one)
                    return found.read().decode() if found else ""
    except (OSError, EOFError, ValueError, lzma.LZMAError, tarfile.TarError) as error:
        raise _broken(path, str(error)) from error
    raise _broken(path, "no control fields")


def _control_tar(file: IO[bytes]) -> bytes:
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("not an ar archive")
    while header := file.read(_AR_HEADER):
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        size = int(header[48:58])
        if name.startswith(_CONTROL):
            if size > _LONGEST_CONTROL:
                raise ValueError("control fields too long")
            suffix = name.removeprefix(_CONTROL)
            if suffix not in _DECOMPRESS:
                raise ValueError(f"unknown compression of {name}")
            return _DECOMPRESS[suffix](file.read(size))
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("no control fields")


def _zstandard(data: bytes) -> bytes:
    """As Ubuntu compresses packages. In Python's library from 3.14 on."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            found: bytes = importlib.import_module(name).decompress(data)
        except ImportError:
            continue
        return found
    raise ValueError("compressed with zstd: reading it takes Python 3.14 or backports.zstd")


_DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".zst": _zstandard,
}


def _broken(path: Path, why: str) -> RigopsError:
    return rigops_error(message=f"cannot read {path} as a package: {why}", key="driver_source")
