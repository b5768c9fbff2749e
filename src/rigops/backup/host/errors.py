"""Texts for people when something on this host failed."""

from __future__ import annotations

import errno

_FIXES = {
    errno.ENOSPC: "remove files or snapshots there",
    errno.ELOOP: "move it away, or name the path without it",
    errno.ENOTDIR: "move it away, or name the path without it",
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


def restore_error(path: str, error: OSError) -> HostError:
    """Where a link or a file is in the way, another folder helps."""
    found = as_host_error(path, error)
    is_led_away = error.errno in {errno.ELOOP, errno.ENOTDIR}
    return (
        HostError(found.message, "name the path without it, or use --to DIR")
        if is_led_away
        else found
    )
