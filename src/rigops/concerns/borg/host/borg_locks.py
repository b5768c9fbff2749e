"""The holder of the repository's lock, and its age."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.ages import LOCKED_MOST, span
from rigops.backup.host.errors import HostError
from rigops.backup.utc import read_utc, utc_now
from rigops.concerns.borg.host.borg_state import known_repository

if TYPE_CHECKING:
    from rigops.concerns.borg.host.borg_documents import LockNote

_LOCK_HOLDER = re.compile(r"(?P<host>.+)@(?P<machine>[0-9]+)\.(?P<pid>[0-9]+)-[0-9]+")


def find_lock(folder: str) -> LockNote | None:
    """Of a repository on this machine: a folder that is named after who made it."""
    try:
        for one in sorted(Path(folder, "lock.exclusive").iterdir()):
            shape = _LOCK_HOLDER.fullmatch(one.name)
            age = max(0.0, time.time() - one.stat().st_mtime)
            host, pid = (shape["host"], int(shape["pid"])) if shape else (one.name, 0)
            return {"host": host, "pid": pid, "age_s": round(age)}
    except OSError:
        pass
    return None


def describe_lock(repository: str, folder: str) -> tuple[HostError, LockNote]:
    """On a server the age is that of the first run that met it, which is the least it can be."""
    found = find_lock(folder) if folder else None
    if found is None:
        known = known_repository(repository)
        since = read_utc(known.get("locked_since")) or utc_now()
        age_s = round((utc_now() - since).total_seconds())
        found = {"host": "", "pid": 0, "age_s": max(0, age_s)}
    holder = f"by {found['host']} (process {found['pid']}) " if found["host"] else ""
    age = timedelta(seconds=found["age_s"])
    wait = "" if age >= LOCKED_MOST else "wait; "
    fix = f"{wait}if nothing runs there any more: `borg break-lock {repository}`"
    message = f"{repository}: locked {holder}for {span(age)}"
    return HostError(message, fix), found
