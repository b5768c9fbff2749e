"""Whether a passphrase opens the repository: one that is given, or else the host's own."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_meanings import DOES_NOT_OPEN, BorgError
from rigops.concerns.borg.host.borg_process import Borg, find_borg_version
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_state import known_repository, read_borg_state, write_borg_state
from rigops.concerns.borg.host.passphrase import read_passphrase
from rigops.concerns.borg.host.repository import (
    RepositoryError,
    explain_refusal,
    list_repository,
    repository_state,
)

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output

_LONGEST_GIVEN = 4096


def add_prove(commands: Any) -> None:
    parser = commands.add_parser("prove", help=__doc__)
    parser.add_argument("--given", type=int, metavar="DESCRIPTOR")
    parser.set_defaults(carry_out=prove)


def prove(options: argparse.Namespace, output: Output) -> int:
    """That another one does not open it is an answer; of the host's own it is a failure."""
    settings = demand_borg_settings()
    is_own = options.given is None
    passphrase = read_passphrase() if is_own else _read_given(options.given)
    borg = Borg(settings, passphrase, find_borg_version(), lock_wait_s=options.lock_wait)
    try:
        found = _open(borg, with_key=not is_own)
    except RepositoryError as error:
        if not is_own:
            output.result(_refused(error))
            return 0
        if not _is_wrong(error):  # that is for the next run to say
            output.notice(f"{error.message}; whether the passphrase opens it is not known")
            return 0
        _note_own(borg, error)
        raise
    if is_own:
        _note_own(borg, None)
    else:
        output.result({"proven": True, **found})
    return 0


def _open(borg: Borg, *, with_key: bool) -> dict[str, str]:
    """The digest of its key says whether a copy elsewhere is the one that this passphrase opens."""
    listing = list_repository(borg)
    if not with_key:
        return {}
    try:
        key = borg.ask("key", "export", borg.repository, "-").text
    except BorgError as error:
        raise explain_refusal(borg, error) from error
    return {
        "id": listing.number,
        "key_sha256": hashlib.sha256(key.strip().encode()).hexdigest(),
    }


def _note_own(borg: Borg, error: RepositoryError | None) -> None:
    state = repository_state(borg, known_repository(borg.repository), None, error)
    write_borg_state({**read_borg_state(), "repository": state})


def _refused(error: RepositoryError) -> dict[str, object]:
    return {
        "proven": False,
        "is_wrong": _is_wrong(error),
        "state": error.state,
        "message": error.message,
        "fix": error.fix,
    }


def _is_wrong(error: RepositoryError) -> bool:
    return DOES_NOT_OPEN in error.message


def _read_given(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as given:
        found = given.read(_LONGEST_GIVEN + 1).rstrip(b"\n")
    if not found or len(found) > _LONGEST_GIVEN or b"\n" in found:
        raise HostError("the passphrase is empty, too long, or several lines", "see its command")
    return found
