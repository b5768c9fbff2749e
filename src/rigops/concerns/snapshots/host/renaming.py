"""Renames that overwrite nothing, and that swap two names at once."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_CWD = -100
_NO_REPLACE, _EXCHANGE = 1, 2
_UNKNOWN = (errno.EINVAL, errno.ENOSYS)  # to this file system, or to this kernel


def move_to_free_name(old: str, new: str) -> None:
    try:
        _rename(old, new, _NO_REPLACE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        Path(old).rename(new)


def put_in_place(new: str, live: str, aside: str) -> None:
    """`new` gets the name `live`, and what has that name gets the name `aside`.

    Killed in between, it leaves both, complete.
    """
    move_to_free_name(new, aside)
    try:
        _rename(aside, live, _EXCHANGE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            Path(aside).rename(new)
            raise
        Path(aside).rename(new)
        Path(live).rename(aside)
        Path(new).rename(live)


def exchange(one: str, other: str) -> None:
    _rename(one, other, _EXCHANGE)


def _rename(old: str, new: str, flag: int) -> None:
    c_library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(old), os.fsencode(new)
    if c_library.renameat2(_AT_CWD, names[0], _AT_CWD, names[1], flag) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new)
