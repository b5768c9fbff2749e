"""Archives as somebody may have made them."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

UNAME = "Linux rig 6.1.0-18-amd64 #1 SMP Debian 6.1.76-1 x86_64 GNU/Linux\n"


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tar(
    members: Iterable[tuple[str | tarfile.TarInfo, str | bytes]],
    mode: str = "w:gz",
    form: int = tarfile.GNU_FORMAT,
) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode, format=form) as archive:  # type: ignore[call-overload]  # the mode is the parameter
        for what, said in members:
            info = member(what) if isinstance(what, str) else what
            content = said.encode() if isinstance(said, str) else said
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return written.getvalue()
