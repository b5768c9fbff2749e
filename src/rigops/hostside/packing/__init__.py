"""Makes one readable text of a host-side program; its digest is the program's version.

A program is a NAME.py (Python 3.8, standard library only) or a NAME.sh (POSIX sh), in hostside/ or
in the folder of the concern that it belongs to.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.hostside.packing import python, shell

PACKAGE = Path(__file__).resolve().parents[2]

FOLDER: Final = "/usr/local/libexec/rigops"  # on hosts, of the programs that stay there
MODE: Final = 0o755

_FOLDERS: Final = ("hostside", "concerns/*")


def installed_at(name: str) -> str:
    return f"{FOLDER}/{name}"


@dataclass(frozen=True)
class Packed:
    name: str
    text: str

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()


# One thread at a time: CPython 3.11 can fail when several parse Python at once.
_packing = Lock()


def pack(name: str, *, root: Path = PACKAGE) -> Packed:
    """Join the program with all it includes. `root` is the folder of the package rigops.

    That of this process is joined once, however many hosts get it.
    """
    with _packing:
        return _of_ours(name) if root == PACKAGE else _joined(name, root)


def _joined(name: str, root: Path) -> Packed:
    places = [f"{folder}/{name}.{ending}" for folder in _FOLDERS for ending in ("py", "sh")]
    found = [path for place in places for path in sorted(root.glob(place))]
    if len(found) != 1:
        several = f"{len(found)} host-side programs: {', '.join(one.name for one in found)}"
        raise RigopsError(
            Problem(
                message=f"{name} is {several if found else 'no host-side program of this rigops'}",
                accepted="a program in hostside/ or in the folder of a concern",
            )
        )
    (path,) = found
    if path.suffix == ".py":
        return Packed(name, python.join(name, path, root))
    return Packed(name, shell.join(name, path, root / "hostside"))


@cache
def _of_ours(name: str) -> Packed:
    return _joined(name, PACKAGE)
