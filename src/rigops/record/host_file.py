"""Documents of one host each in this machine's state folder, as its baseline is."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from rigops import atomic_file, regular_file
from rigops.errors import Problem, RigopsError
from rigops.record.journal import state_folder

_MODE: Final = 0o600
_MOST_BYTES: Final = 16 * 1024 * 1024
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.@_-]")
_LONGEST: Final = 200
FIX: Final = "move it away"


def path_of(folder: str, host: str) -> Path:
    """No two hosts share one, and none is outside the folder, whatever it is called."""
    name = _UNSAFE.sub(lambda sign: "".join(f"%{one:02x}" for one in sign[0].encode()), host)
    if len(name) > _LONGEST:
        name = sha256(host.encode()).hexdigest()
    return state_folder() / folder / f"{name}.json"


def read(folder: str, host: str) -> str | None:
    path = path_of(folder, host)
    try:
        return regular_file.read(path, most=_MOST_BYTES).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, host, f"cannot read it: {error}", FIX) from error


def write(folder: str, host: str, text: str) -> Path:
    path = path_of(folder, host)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_file.replace(path, text, _MODE)
    except OSError as error:
        fix = f"make {path.parent} a folder that you can write to; check for free space"
        raise _unusable(path, host, f"cannot write it: {error}", fix) from error
    return path


def _unusable(path: Path, host: str, message: str, fix: str) -> RigopsError:
    return RigopsError(Problem(message=message, fix=fix, file=str(path), host=host))
