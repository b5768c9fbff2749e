"""A .deb file, made of bytes: the same recipe gives the same file, without root or dpkg."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from hashlib import md5
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TIME = 1_767_225_600  # any moment will do, as long as it is always the same


@dataclass(frozen=True)
class File:
    path: str  # from the root, without its slash
    data: bytes = b""
    mode: int = 0o644
    link: str = ""


def control(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def size(files: Iterable[File]) -> str:
    """The field Installed-Size, in KiB."""
    return str(-(-sum(len(file.data) for file in files) // 1024))


def pack(fields: Mapping[str, str], scripts: Iterable[File], files: Iterable[File]) -> bytes:
    files = sorted(files, key=lambda file: file.path)
    about = [
        File("control", control(fields).encode()),
        File("md5sums", "".join(_sum(file) for file in files if not file.link).encode()),
        *scripts,
    ]
    if conffiles := [f"/{file.path}\n" for file in files if _is_conffile(file)]:
        about.append(File("conffiles", "".join(conffiles).encode()))
    return b"!<arch>\n" + b"".join(
        _member(name, data)
        for name, data in (
            ("debian-binary", b"2.0\n"),
            ("control.tar", _tar(about)),
            ("data.tar", _tar(files)),
        )
    )


def _is_conffile(file: File) -> bool:
    """As debhelper has it: what lies in /etc is the administrator's."""
    return file.path.startswith("etc/") and not file.link


def _sum(file: File) -> str:
    return f"{md5(file.data, usedforsecurity=False).hexdigest()}  {file.path}\n"


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{_TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (len(data) % 2)


def _tar(files: Iterable[File]) -> bytes:
    stream = io.BytesIO()
    seen: set[str] = set()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in files:
            for parent in reversed(PurePosixPath(file.path).parents):
                if str(parent) not in seen:
                    seen.add(str(parent))
                    tar.addfile(_entry(str(parent), tarfile.DIRTYPE, 0o755))
            kind = tarfile.SYMTYPE if file.link else tarfile.REGTYPE
            entry = _entry(file.path, kind, 0o777 if file.link else file.mode)
            entry.linkname, entry.size = file.link, len(file.data)
            tar.addfile(entry, io.BytesIO(file.data))
    return stream.getvalue()


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo("." if path == "." else f"./{path}")
    entry.type, entry.mode, entry.mtime = kind, mode, _TIME
    entry.uname = entry.gname = "root"
    return entry
