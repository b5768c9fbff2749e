"""The cached repositories, whole or not at all, for the recipes as they are now."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tests.lab.packages import archive, recipe
from tests.lab.packages.libraries import Libraries

_SOURCES = (recipe.FOLDER, recipe.FOLDER.parent / "silicon" / "cuda")


def repository(cache: Path) -> Path:
    """A folder with `debian` and `ubuntu`, for file: sources; built where the cache has none."""
    target = cache / "packages" / digest()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix="new-", dir=target.parent))
    try:
        with tempfile.TemporaryDirectory() as work:
            archive.write(new, recipe.suites(os.uname().release), Libraries(Path(work)))
        new.chmod(0o755)
        try:
            new.rename(target)
        except OSError:  # somebody else was faster with the same
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return target


def digest() -> str:
    whole = hashlib.sha256(os.uname().release.encode())
    for folder in _SOURCES:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                mode = path.stat().st_mode & 0o100
                whole.update(f"{path.relative_to(folder)}\0{mode}\0".encode())
                whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
