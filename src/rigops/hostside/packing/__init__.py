"""Makes one readable text of a host-side program; its digest is the program's version.

A program is hostside/NAME.py (Python 3.8, standard library only) or hostside/NAME.sh (POSIX sh).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Literal

from rigops.errors import Problem, RigopsError
from rigops.hostside.packing import python, shell

Language = Literal["python", "sh"]

PACKAGE = Path(__file__).resolve().parents[2]

FOLDER: Final = "/usr/local/libexec/rigops"  # on hosts, of the programs that stay there
MODE: Final = 0o755


def installed_at(name: str) -> str:
    return f"{FOLDER}/{name}"


@dataclass(frozen=True)
class Packed:
    name: str
    text: str
    language: Language

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()


# One thread at a time: CPython 3.11 can fail when several parse Python at once.
_packing = Lock()


def pack(name: str, *, root: Path = PACKAGE) -> Packed:
    """Join the program with all it includes. `root` is the folder of the package rigops."""
    with _packing:
        return _packed(name, root)


def _packed(name: str, root: Path) -> Packed:
    in_python = root / "hostside" / f"{name}.py"
    in_shell = root / "hostside" / f"{name}.sh"
    if in_python.is_file() and in_shell.is_file():
        raise _no_program(f"{name} is two host-side programs: {in_python.name}, {in_shell.name}")
    if in_python.is_file():
        return Packed(name, python.join(name, in_python, root), "python")
    if in_shell.is_file():
        return Packed(name, shell.join(name, in_shell), "sh")
    raise _no_program(f"{name} is no host-side program of this rigops")


def _no_program(message: str) -> RigopsError:
    return RigopsError(Problem(message=message, accepted="one of hostside/*.py or hostside/*.sh"))
