"""Where a host may have libnccl.so.2, and which of them root may load.

A library that a user can replace is code of that user: as root, only those that root alone can
write are loaded.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SONAME: Final = "libnccl.so.2"

_OF_PYTHON: Final = (f"nvidia/nccl/lib/{SONAME}", f"torch/lib/{SONAME}")
_OF_ENVIRONMENT: Final = (
    f"lib/{SONAME}",
    *(f"lib/python3*/site-packages/{place}" for place in _OF_PYTHON),
)
_OF_SYSTEM: Final = (
    f"usr/local/cuda*/lib64/{SONAME}",
    *(f"usr/lib/python3/dist-packages/{place}" for place in _OF_PYTHON),
    *(f"usr/local/lib/python3*/dist-packages/{place}" for place in _OF_PYTHON),
    *(f"usr/lib*/python3*/site-packages/{place}" for place in _OF_PYTHON),
    *(f"usr/local/lib/python3*/site-packages/{place}" for place in _OF_PYTHON),
    *(f"opt/*/{place}" for place in _OF_ENVIRONMENT),
)
_LDCONFIG: Final = "/sbin/ldconfig"
_LDCONFIG_S: Final = 5.0
_BELOW_HOME_S: Final = 3.0
_DEPTH: Final = 4  # of environments below the home directory


def candidates(home: Path) -> Iterator[Path]:
    """Each once, without links: the linker's, those of the system's Python, the user's."""
    seen = set()
    for place in _places(home):
        try:
            path = place.resolve()
            is_new = path.is_file() and path not in seen
        except (OSError, RuntimeError):  # a loop of links, or a folder that may not be read
            continue
        if is_new:
            seen.add(path)
            yield path


def _places(home: Path) -> Iterator[Path]:
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield Path(folder) / SONAME
    yield from _of_linker()
    yield from _matches(Path("/"), _OF_SYSTEM)
    yield from _matches(home / ".local", _OF_ENVIRONMENT)
    for environment in _environments(home):
        yield from _matches(environment, _OF_ENVIRONMENT)


def _of_linker() -> Iterator[Path]:
    try:
        listed = subprocess.run(
            [_LDCONFIG, "-p"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=_LDCONFIG_S,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return
    for line in listed.split("\n"):
        name, _, path = line.partition("=>")
        if name.split()[:1] == [SONAME]:
            yield Path(path.strip())


def _matches(folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        with suppress(OSError):  # a folder that may not be read
            yield from sorted(folder.glob(pattern))


def _environments(home: Path) -> Iterator[Path]:
    """Folders with a Python of their own: venv, conda, pyenv. Not below them, but for `envs`."""
    until = time.monotonic() + _BELOW_HOME_S
    level = [home]
    for _ in range(_DEPTH):
        below: list[Path] = []
        for folder in level:
            for inner in _folders(folder, until):
                if os.path.lexists(inner / "bin/python3"):
                    yield inner
                    below.append(inner / "envs")
                else:
                    below.append(inner)
        level = below


def _folders(folder: Path, until: float) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() >= until:
                    return
                if entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
    except OSError:
        return


# ---- what root may load


def writers(path: Path) -> str:
    """The users but root that can change the file or replace it, in words; empty: none."""
    for place in (path, *path.parents):
        found = place.stat()
        if found.st_uid != 0:
            return f"{place} belongs to user {found.st_uid}"
        is_shared_folder = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if is_shared_folder and place != path.parent:
            continue  # as /tmp: only owners rename files there
        if found.st_mode & stat.S_IWOTH:
            return f"everybody can write {place}"
        if found.st_mode & stat.S_IWGRP and _has_members(found.st_gid):
            return f"group {found.st_gid} can write {place}"
    return ""


def _has_members(group: int) -> bool:
    """Whether there are users in it besides root."""
    try:
        names = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        names = set()
    names |= {user.pw_name for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid}
    return bool(names - {"root"})
