"""The passphrase of the repository: read from systemd's credential, handed on by a pipe only."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_meanings import TO_REPLACE_IT

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREDENTIAL = "passphrase"
_LONGEST = 4096  # a pipe takes that at once


def read_passphrase() -> bytes:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise HostError(
            "no passphrase: systemd gave this process no credential",
            "start the unit instead: systemctl start rigops-borg",
        )
    try:
        found = Path(folder, _CREDENTIAL).read_bytes().rstrip(b"\n")
    except OSError as error:
        fix = "run `rigops apply --only borg`"
        raise HostError(f"no passphrase: {error.strerror}", fix) from error
    if not found or len(found) > _LONGEST or b"\n" in found:
        text = "the passphrase is empty, too long, or several lines"
        raise HostError(text, TO_REPLACE_IT)
    return found


@contextmanager
def passphrase_pipe(passphrase: bytes) -> Iterator[int]:
    """The pipe that a process reads it from, once. It is on no disk, and in no environment."""
    reading, writing = os.pipe()
    try:
        try:
            os.write(writing, passphrase + b"\n")
        finally:
            os.close(writing)
        yield reading
    finally:
        os.close(reading)
