"""The passphrase of a repository, as the command that is declared prints it on this machine."""

from __future__ import annotations

import subprocess
from typing import Final

from rigops.errors import Problem, RigopsError

_PATIENCE_S: Final = 120.0  # a person may have to unlock a store
_LONGEST: Final = 1024  # so that a pipe takes it at once, whatever its characters
_FIX: Final = "run passphrase_command by hand; it has to print one line"


def read_passphrase(command: str, host: str) -> str:
    """Neither what it prints nor what it complains of is shown: either may be the passphrase."""
    try:
        done = subprocess.run(  # noqa: S602 - the user's own command
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(host, f"passphrase_command did not end in {_PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise _failed(host, f"passphrase_command: {error.strerror}") from None
    if done.returncode != 0:
        raise _failed(host, f"passphrase_command ended with {done.returncode}")
    try:
        found = done.stdout.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _failed(host, "passphrase_command printed no text") from None
    if not found:
        raise _failed(host, "passphrase_command printed nothing")
    if len(found) > _LONGEST:
        raise _failed(host, f"passphrase_command printed more than {_LONGEST} characters")
    if "\n" in found or "\0" in found:
        raise _failed(host, "passphrase_command printed more than one line")
    return found


def _failed(host: str, message: str) -> RigopsError:
    return RigopsError(Problem(message=message, host=host, key="borg", fix=_FIX))
