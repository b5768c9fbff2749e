"""The drill of older archives: what only they have lies in segments that nothing else reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.borg.host.archive_contents import files_in_archive, only
from rigops.concerns.borg.host.archive_names import archives_of
from rigops.concerns.borg.host.borg_meanings import FAILED, OK, BorgError
from rigops.concerns.borg.host.borg_process import BorgTooSlowError
from rigops.concerns.borg.host.borg_state import read_borg_state, write_borg_state
from rigops.concerns.borg.host.repository import RepositoryError, explain_refusal
from rigops.concerns.borg.host.sampling import choose_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_documents import OlderDrillNote
    from rigops.concerns.borg.host.borg_process import Borg

_OLDER_S = 900.0  # to list it and to read the sample
_OLDER_BYTES = 1 << 30
_UNFINISHED = "unfinished"


def drill_older(borg: Borg, names: Sequence[str], output: Output) -> OlderDrillNote | None:
    """Reads a sample of one archive of `names`, and writes it nowhere. None: there is no other."""
    archive = choose_older(borg.settings.host, names, read_borg_state().get("older_drill", {}))
    if archive is None:
        return None
    read = 0
    result = OK
    try:
        read = _read_sample(borg, archive)
    except BorgTooSlowError:
        result = _UNFINISHED
        output.notice(f"{archive}: its sample was not read within {_OLDER_S:.0f} s; not judged")
    except BorgError as refusal:
        error = explain_refusal(borg, refusal)
        if error.state != FAILED:
            raise error from refusal
        _note_older(archive, FAILED, 0)
        raise RepositoryError(
            f"{error.message} (in {archive}, an older archive)", error.fix, error.state
        ) from refusal
    if result == OK:
        output.notice(f"{archive}: {read} files of this older archive can be read")
    return _note_older(archive, result, read)


def choose_older(host: str, names: Sequence[str], last: OlderDrillNote) -> str | None:
    """By turn, from the oldest on. One that failed is read again while it is there. Pure."""
    whole = [one.name for one in archives_of(host, names) if one.is_complete]
    tried = str(last.get("archive") or "")
    if last.get("result") == FAILED and tried in whole:
        return tried
    before = archives_of(host, [tried])
    later = [one for one in archives_of(host, whole) if before and one.at > before[0].at]
    return later[0].name if later else next(iter(whole), None)


def _read_sample(borg: Borg, archive: str) -> int:
    """The same files of an archive each time: what failed is met again."""
    ends = time.monotonic() + _OLDER_S
    files = files_in_archive(borg, archive, most_s=_OLDER_S)
    sample = choose_sample(files, _OLDER_BYTES, archive)
    if sample.files:
        left = max(1.0, ends - time.monotonic())
        words = ["extract", "--dry-run", *only(sample.files), f"{borg.repository}::{archive}"]
        borg.ask(*words, most_s=left)
    return len(sample.files)


def _note_older(archive: str, result: str, files: int) -> OlderDrillNote:
    found: OlderDrillNote = {
        "archive": archive,
        "at": utc_text(utc_now()),
        "result": result,
        "files": files,
    }
    write_borg_state({**read_borg_state(), "older_drill": found})
    return found
