"""The repository: made once, listed, and judged before anything is done with it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import is_disconnected
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.borg.host.borg_locks import describe_lock
from rigops.concerns.borg.host.borg_meanings import (
    ABSENT,
    FAILED,
    OK,
    TO_BE_HEALED,
    UNREACHABLE,
    BorgError,
)
from rigops.concerns.borg.host.borg_process import Borg, find_borg_version
from rigops.concerns.borg.host.borg_state import known_repository
from rigops.concerns.borg.host.borg_versions import needs_tam_check
from rigops.concerns.borg.host.passphrase import read_passphrase
from rigops.hostside.shared.beneath import make_writable

if TYPE_CHECKING:
    import argparse

    from rigops.concerns.borg.host.borg_documents import LockNote, RepositoryNote
    from rigops.concerns.borg.host.borg_settings import BorgSettings


class RepositoryError(HostError):
    """`state`: of the repository, as the file for doctor has it."""

    def __init__(self, message: str, fix: str, state: str, lock: LockNote | None = None) -> None:
        super().__init__(message, fix)
        self.state = state
        self.lock = lock


class Listing(NamedTuple):
    """All names, of other hosts and of interrupted runs too."""

    number: str  # the id of the repository
    names: tuple[str, ...]


def open_borg(settings: BorgSettings, options: argparse.Namespace) -> Borg:
    if settings.folder:
        with suppress(OSError):  # what it means is for borg to say
            make_writable(os.path.realpath(settings.folder))
    return Borg(
        settings,
        read_passphrase(),
        find_borg_version(),
        lock_wait_s=options.lock_wait,
        # borg itself would note it, also in a dry run
        has_moved=getattr(options, "moved", False) and not getattr(options, "dry_run", False),
    )


def list_repository(borg: Borg) -> Listing:
    """Proves that it is there, is the known one, and opens with the passphrase."""
    known = known_repository(borg.repository)
    try:
        found = borg.ask("list", "--json", "--consider-checkpoints", borg.repository).document()
    except BorgError as error:
        raise explain_refusal(borg, error) from error
    number = str((found.get("repository") or {}).get("id", ""))
    if known.get("id") and known["id"] != number:
        raise RepositoryError(
            f"{borg.repository}: this is another repository than before ({number[:12]}, "
            f"not {str(known['id'])[:12]})",
            "mount the right disk; for a new beginning, remove /var/lib/rigops/borg.json",
            FAILED,
        )
    names = [str(one.get("name")) for one in found.get("archives") or () if isinstance(one, dict)]
    return Listing(number, tuple(names))


def explain_refusal(borg: Borg, error: BorgError) -> RepositoryError:
    """Facts beside borg's own messages: the age of a lock, and whether a disk was here."""
    if error.is_locked:
        explained, lock = describe_lock(borg.repository, borg.settings.folder)
        return RepositoryError(explained.message, explained.fix, error.state, lock)
    if error.state == TO_BE_HEALED:  # a backup meets it too, where its cache is rebuilt
        return to_be_healed(borg, str(known_repository(borg.repository).get("last_borg") or ""))
    folder = borg.settings.folder
    if folder and is_disconnected(folder):
        return RepositoryError(
            f"{borg.repository}: its disk was disconnected while it was mounted",
            "unmount it, connect it, and mount it again",
            FAILED,
        )
    if error.state == ABSENT:
        return _explain_absence(borg)
    return RepositoryError(error.message, error.fix, error.state)


def _explain_absence(borg: Borg) -> RepositoryError:
    known = known_repository(borg.repository)
    number = file_system_number(borg.settings.folder)
    if known.get("id") and number and number == known.get("file_system"):
        return RepositoryError(
            f"{borg.repository}: the repository is gone, and its disk is there",
            "find out who removed it, or copy it back; for a new beginning, remove "
            "/var/lib/rigops/borg.json, and run rigops apply",
            FAILED,
        )
    if known.get("id"):
        seen = known.get("seen_at") or "before"
        return RepositoryError(
            f"{borg.repository} is absent (last seen: {seen})",
            "mount its disk, or see the server",
            ABSENT,
        )
    return RepositoryError(
        f"{borg.repository}: there is no repository yet", "run rigops apply", ABSENT
    )


def is_for_later(borg: Borg, error: HostError) -> bool:
    """A disk that is not connected is normal to a timer: the age warns.

    Not where it was never opened: then a person has to act. Nor a server: rigs lose their
    network too, and only a person sees that.
    """
    is_away = getattr(error, "state", "") == ABSENT and bool(borg.settings.folder)
    return is_away and bool(known_repository(borg.repository).get("id"))


def check_signatures(borg: Borg, known: RepositoryNote) -> None:
    """With a newer borg than the last one: what an older one renamed is healed, never repaired."""
    if not needs_tam_check(borg.version, str(known.get("last_borg") or "")):
        return
    try:
        borg.ask("upgrade", "--check-tam", borg.repository, is_strict=True)
        borg.ask("upgrade", "--check-archives-tam", borg.repository, is_strict=True)
    except BorgError as error:
        if error.is_locked or error.state in {ABSENT, UNREACHABLE}:
            raise explain_refusal(borg, error) from error
        raise to_be_healed(borg, str(known.get("last_borg") or "")) from error


def to_be_healed(borg: Borg, last: str) -> RepositoryError:
    return RepositoryError(
        f"{borg.repository}: archives of an older borg ({last or 'unknown'}) are to be healed "
        f"before borg {borg.version} checks or restores; they are not lost",
        "`rigops backup HOST --heal`; run no `borg check --repair`, which deletes them",
        TO_BE_HEALED,
    )


def file_system_number(folder: str) -> int:
    """Of the one that has this folder, or would have it; 0: unknown. It outlives an unmount."""
    while folder and folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        return os.statvfs(folder).f_fsid if folder else 0
    except OSError:
        return 0


def free_bytes(settings: BorgSettings) -> int | None:
    """None of a server."""
    try:
        found = os.statvfs(settings.folder) if settings.folder else None
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found else None


def repository_state(
    borg: Borg, known: RepositoryNote, listing: Listing | None, error: HostError | None
) -> RepositoryNote:
    """For doctor. Facts that cannot be known now stay as they were last."""
    state = getattr(error, "state", FAILED) if error else OK
    found: RepositoryNote = {
        **known,
        "location": borg.repository,
        "state": state,
        "error": error.message if error else None,
        "fix": error.fix if error else None,
        "borg": str(borg.version),
        "lock": getattr(error, "lock", None),
        "locked_since": None,
    }
    if found["lock"]:
        found["locked_since"] = known.get("locked_since") or utc_text(utc_now())
    if listing:
        found["id"], found["seen_at"] = listing.number, utc_text(utc_now())
        found["file_system"] = file_system_number(borg.settings.folder)
    free = free_bytes(borg.settings)
    if free is not None:
        found["free_bytes"] = free
    return found
