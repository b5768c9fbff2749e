"""Makes the repository, once; accepts that it was moved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_meanings import (
    ABSENT,
    DOES_NOT_OPEN,
    NO_REPOSITORY,
    SOMETHING_THERE,
    BorgError,
)
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_state import known_repository, read_borg_state, write_borg_state
from rigops.concerns.borg.host.repository import (
    Listing,
    RepositoryError,
    list_repository,
    open_borg,
    repository_state,
)

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_process import Borg
    from rigops.concerns.borg.host.borg_settings import BorgSettings

# Space to prune a full repository: a share of the disk, and of its free space.
_MOST_SPARE, _SHARE, _SHARE_OF_FREE = 2 << 30, 50, 10


def add_init(commands: Any) -> None:
    parser = commands.add_parser("init", help="make the repository, if there is none")
    parser.add_argument("--moved", action="store_true", help="accept its new place")
    parser.set_defaults(carry_out=init)


def init(options: argparse.Namespace, output: Output) -> int:
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    with only_borg_run():
        try:
            listing, is_new = _open_or_make(borg, settings)
        except RepositoryError as error:
            if not settings.folder and DOES_NOT_OPEN not in error.message:
                _note_refusal(borg, error)
            raise
        known = known_repository(settings.repository)
        found = repository_state(borg, known, listing, None)
        if is_new:
            found["last_borg"] = str(borg.version)
            found["archives"], found["seen_archives"] = 0, []
        before = read_borg_state()
        is_same = before.get("repository", {}).get("id") == listing.number
        # Backups, checks and drills of another repository say nothing of this one.
        write_borg_state({**(before if is_same else {}), "repository": found})
    done = "made" if is_new else "exists already"
    output.notice(f"{settings.repository}: {done}, borg {borg.version}")
    output.result({"initialized": is_new, "id": listing.number, "borg": str(borg.version)})
    return 0


def _open_or_make(borg: Borg, settings: BorgSettings) -> tuple[Listing, bool]:
    try:
        return list_repository(borg), False
    except RepositoryError as error:
        # As a server's administrator makes it for this host. Here it may be a mount point.
        may_be_empty = NO_REPOSITORY in error.message and not settings.folder
        is_known = known_repository(settings.repository).get("id")
        if is_known or not (error.state == ABSENT or may_be_empty):
            raise
        try:
            _make(borg, settings)
        except RepositoryError as refused:
            raise (error if SOMETHING_THERE in refused.message else refused) from refused
        return list_repository(borg), True


def _note_refusal(borg: Borg, error: RepositoryError) -> None:
    """By a server, where a person does one thing after the other: plan and doctor say the next."""
    known, before = known_repository(borg.repository), read_borg_state()
    found = repository_state(borg, known, None, error)
    write_borg_state({**(before if known else {}), "repository": found})


def _make(borg: Borg, settings: BorgSettings) -> None:
    above = os.path.dirname(settings.folder)
    if settings.folder and not os.path.isdir(above):
        raise HostError(f"{above} does not exist", "mount the repository's disk, or make it")
    try:
        borg.ask("init", "--encryption", "repokey-blake2", borg.repository)
    except BorgError as error:
        raise RepositoryError(error.message, error.fix, error.state) from error
    if settings.folder:
        found = os.statvfs(settings.folder)
        spare = spare_bytes(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
        borg.ask("config", settings.folder, "additional_free_space", str(spare))


def spare_bytes(size: int, free: int) -> int:
    """On a disk that is almost full a reserve of the usual size would stop the first backup."""
    return min(_MOST_SPARE, size // _SHARE, free // _SHARE_OF_FREE)
