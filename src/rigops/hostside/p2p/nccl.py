"""NCCL on a host: where its library may be, its calls, and the shared memory that it leaves behind.

Imported in children only: its calls may never return. A library that a user can replace is code of
that user: as root, only those that root alone can write are loaded. A process that is killed leaves
the names of its shared memory.
"""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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


UINT32: Final = 3  # ncclUint32
SUM: Final = 0  # ncclSum

_enum = ctypes.c_int
_address = ctypes.c_void_p

NCCL_PROTOTYPES: Final[Mapping[str, tuple[Any, ...]]] = {
    "ncclGetVersion": (_address,),
    "ncclCommInitAll": (_address, ctypes.c_int, _address),
    "ncclCommGetAsyncError": (_address, _address),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (_address, _address, ctypes.c_size_t, _enum, _enum, _address, _address),
}


class NcclError(Exception):
    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text} ({code})")


class Nccl:
    """Raises OSError or AttributeError for a file that is no usable library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.ncclGetErrorString.argtypes = (_enum,)
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        for name, arguments in NCCL_PROTOTYPES.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int

    def do(self, call: str, *arguments: object) -> None:
        self._check(call, getattr(self._library, call)(*arguments))

    def _check(self, call: str, code: int) -> None:
        if code:
            text = self._library.ncclGetErrorString(code) or b""
            raise NcclError(call, code, text.decode("utf-8", "replace"))

    def version(self) -> str:
        out = ctypes.c_int()
        self.do("ncclGetVersion", ctypes.byref(out))
        return version_text(out.value)

    def communicators(self, devices: Sequence[int]) -> list[int]:
        """One for each device, all in this process."""
        out = (ctypes.c_void_p * len(devices))()
        numbers = (ctypes.c_int * len(devices))(*devices)
        self.do("ncclCommInitAll", out, len(devices), numbers)
        return [one or 0 for one in out]

    def check(self, communicator: int) -> None:
        """Raise what has failed since the calls returned."""
        out = ctypes.c_int()
        self.do("ncclCommGetAsyncError", communicator, ctypes.byref(out))
        self._check("ncclAllReduce", out.value)


def version_text(code: int) -> str:
    """2.8.4 is 2804, and 2.18.5 is 21805."""
    thousands = 10_000 if code >= 10_000 else 1_000  # noqa: PLR2004 - since 2.9
    return f"{code // thousands}.{code % thousands // 100}.{code % 100}"


FOLDER: Final = Path("/dev/shm")  # noqa: S108 - where NCCL makes them
_NAMES: Final = "nccl-*"


def own_names(folder: Path = FOLDER) -> frozenset[str]:
    """Those of this user."""
    found = set()
    for path in folder.glob(_NAMES):
        with suppress(OSError):  # its process has just removed it
            if path.lstat().st_uid == os.geteuid():
                found.add(path.name)
    return frozenset(found)


def remove_new(before: Collection[str], folder: Path = FOLDER) -> None:
    """Those since then, but for what another process of this user has just begun to use."""
    new = own_names(folder) - set(before)
    if not new:
        return
    in_use = "".join(_maps())
    for name in new:
        if str(folder / name) not in in_use:
            with suppress(OSError):
                (folder / name).unlink()


def _maps() -> list[str]:
    """The mappings of each process, as far as this user may see them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            found.append(path.read_text(encoding="utf-8", errors="replace"))
    return found
