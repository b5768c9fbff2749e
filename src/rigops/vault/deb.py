"""The control fields of a .deb file, read without dpkg: a controller may be no Debian.

The file is an ar archive with a compressed tar of them in it.
"""

from __future__ import annotations

import gzip
import importlib
import io
import lzma
import tarfile
from typing import IO, TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_LONGEST: Final = 16 * 1024 * 1024  # of the control member; real ones have some kilobytes
_CONTROL: Final = "control.tar"


def control(path: Path) -> str:
    try:
        with path.open("rb") as file:
            name, data = _member(file)
        unpacked = _unpacked(name, data)
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
            for one in tar:
                if one.isfile() and one.name.removeprefix("./") == "control":
                    found = tar.extractfile(one)
                    return found.read().decode() if found else ""
    except (OSError, EOFError, ValueError, lzma.LZMAError, tarfile.TarError) as error:
        raise _broken(path, str(error)) from error
    raise _broken(path, "no control fields")


def _member(file: IO[bytes]) -> tuple[str, bytes]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an ar archive")
    while header := file.read(_HEADER):
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        size = int(header[48:58])
        if name.startswith(_CONTROL):
            if size > _LONGEST:
                raise ValueError("control fields too long")
            return name, file.read(size)
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("no control fields")


def _unpacked(name: str, data: bytes) -> bytes:
    decompress: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
        ".zst": _zstandard,
    }
    suffix = name.removeprefix(_CONTROL)
    if suffix not in decompress:
        raise ValueError(f"unknown compression of {name}")
    return decompress[suffix](data)


def _zstandard(data: bytes) -> bytes:
    """As Ubuntu compresses packages. In Python's library from 3.14 on."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            found: bytes = importlib.import_module(name).decompress(data)
        except ImportError:
            continue
        return found
    raise ValueError("compressed with zstd: reading it takes Python 3.14 or backports.zstd")


def _broken(path: Path, why: str) -> RigopsError:
    return RigopsError(
        Problem(message=f"cannot read {path} as a package: {why}", key="driver_source")
    )
