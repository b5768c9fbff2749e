"""The passphrase of a repository, as the command that is declared prints it on this machine."""

from __future__ import annotations

import subprocess
from typing import Final

from rigops.errors import Problem, RigopsError
from rigops.probe.bundles.shapes import without_secrets
from rigops.transport.errors import clean

_PATIENCE_S: Final = 120.0  # a person may have to unlock a store
_LONGEST: Final = 1024  # so that a pipe takes it at once, whatever its characters
# By the shell, whose complaint has words of the command: people write the passphrase there.
_MEANINGS: Final = {
    126: "its program cannot be run on this machine",
    127: "its program is not on this machine",
}
_FIX: Final = "run passphrase_command by hand; it has to print one line"


def read_passphrase(command: str, host: str) -> str:
    """What it prints is never shown. Its complaint is, without that and without other secrets."""
    try:
        done = subprocess.run(  # noqa: S602 - the user's own command
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(host, f"passphrase_command did not end in {_PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise _failed(host, f"passphrase_command: {error.strerror}") from None
    if done.returncode != 0:
        why = _MEANINGS.get(done.returncode) or _complaint(done)
        raise _failed(host, f"passphrase_command ended with {done.returncode}", why)
    try:
        found = done.stdout.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _failed(host, "passphrase_command printed no text") from None
    if not found:
        raise _failed(host, "passphrase_command printed nothing", _complaint(done))
    if len(found) > _LONGEST:
        raise _failed(host, f"passphrase_command printed more than {_LONGEST} characters")
    if "\n" in found or "\0" in found:
        raise _failed(host, "passphrase_command printed more than one line")
    return found


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """Its last line."""
    lines = done.stderr.decode(errors="replace").splitlines()
    text = next((one for one in reversed(lines) if one.strip()), "")
    for printed in done.stdout.decode(errors="replace").split():
        text = text.replace(printed, "***")
    return clean(without_secrets(text))


def _failed(host: str, what: str, why: str = "") -> RigopsError:
    message = f"{what}: {why}" if why else what
    return RigopsError(Problem(message=message, host=host, key="borg", fix=_FIX))
