"""Texts for people when something on this host failed."""

from __future__ import annotations

import errno

_FIXES = {
    errno.ENOSPC: "remove files or snapshots there",
    errno.ELOOP: "name the path without it; or restore with --to DIR",
    errno.ENOTDIR: "name the path without it; or restore with --to DIR",
}


class HostError(Exception):
    """WHAT, and what to do about it."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def as_host_error(what: str, error: OSError) -> HostError:
    where = f"{error.filename}: " if error.filename else ""
    return HostError(f"{what}: {where}{error.strerror or error}", _FIXES.get(error.errno or 0, ""))
