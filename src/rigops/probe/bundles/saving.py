"""Saves bundles: as one archive to send, or as directories to look into."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from rigops import atomic_file
from rigops.errors import usage_error
from rigops.probe.bundle import MOST_BYTES, Bundle

_ARCHIVES: Final = (".tar.gz", ".tgz")
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_LONGEST_NAME: Final = 64
_LATEST: Final = 2**32 - 1  # in a gzip header
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")

Tree = dict[str, bytes]  # by path


def save(bundle: Bundle, path: Path) -> Path:
    """An archive if the name ends in .tar.gz or .tgz, else the bundle's directory."""
    if _is_archive(path):
        return save_all([bundle], path)
    return _write(path, bundle.files(), bundle.collected_at)


def save_all(bundles: Sequence[Bundle], path: Path) -> Path:
    """One archive, or one directory, with a directory for each."""
    tree = {
        f"{folder}/{name}": content
        for folder, bundle in zip(_folders(bundles), bundles, strict=True)
        for name, content in bundle.files().items()
    }
    return _write(path, tree, max((one.collected_at or "" for one in bundles), default=""))


def _write(path: Path, tree: Tree, collected_at: str | None) -> Path:
    refuse_to_overwrite(path)
    for name, content in tree.items():
        if len(content) > MOST_BYTES:
            raise usage_error(
                message=f"not written: {name} is longer than {MOST_BYTES >> 20} MiB, which is not "
                "read back",
                file=str(path),
                fix="Keep the part that matters, such as the end of a log.",
            )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _is_archive(path):
            atomic_file.replace(path, _archive(tree, _seconds(collected_at)), _PRIVATE_FILE)
        else:
            _write_folder(path, tree)
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise usage_error(message=message, file=str(path)) from error
    return path


def _is_archive(path: Path) -> bool:
    return path.name.endswith(_ARCHIVES)


def refuse_to_overwrite(path: Path) -> None:
    try:
        taken = path.is_symlink() or (any(path.iterdir()) if path.is_dir() else path.exists())
    except OSError:
        taken = True
    if taken:
        raise usage_error(
            message="already exists; not overwritten",
            file=str(path),
            fix="Name another file, or remove this one.",
        )


def _write_folder(path: Path, tree: Mapping[str, bytes]) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        for name, content in tree.items():
            file = aside / name
            file.parent.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
            file.touch(mode=_PRIVATE_FILE)
            file.write_bytes(content)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _archive(tree: Mapping[str, bytes], seconds: int) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path, content in tree.items():
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(content), seconds, _PRIVATE_FILE
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _folders(bundles: Iterable[Bundle]) -> list[str]:
    """A distinct name for each, fit for any file system."""
    found: list[str] = []
    for bundle in bundles:
        name = _UNFIT.sub("-", bundle.host).strip(".-")[:_LONGEST_NAME] or "host"
        others = (f"{name}-{number}" for number in count(2))
        found.append(next(one for one in chain([name], others) if one not in found))
    return found


def _seconds(collected_at: str | None) -> int:
    """0 if unknown: the same bundle is the same archive, whenever it is saved."""
    try:
        moment = datetime.fromisoformat((collected_at or "").replace("Z", "+00:00"))
        return min(max(0, int(moment.timestamp())), _LATEST) if moment.tzinfo else 0
    except (ValueError, OverflowError):
        return 0
