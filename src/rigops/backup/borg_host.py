"""Where borg's files lie on hosts, and how its program gets the passphrase. Pure."""

from __future__ import annotations

import json
import shlex
from typing import Final

from rigops.hostside.packing import installed_at

_FOLDER: Final = "/etc/rigops"
PASSPHRASE: Final = f"{_FOLDER}/borg_passphrase"  # for root to read: systemd before 250
CREDENTIAL: Final = f"{PASSPHRASE}.cred"  # encrypted with the host's own key
CREDENTIAL_NAME: Final = "passphrase"
_NOT_STORED: Final = "this host has no passphrase of the repository"
_FIX: Final = "run `rigops apply --only borg`"
STATE_FILE: Final = "/var/lib/rigops/borg.json"
# A service of its own is the only way to hand a program a credential. Its input is ours: where
# that ends, the program is ended.
RUN: Final = "systemd-run --quiet --pipe --wait --collect --service-type=exec --property=UMask=0077"


def credential(*, is_encrypted: bool, path: str = "") -> str:
    """The line of a unit that loads the passphrase. `path`: of another file than usual."""
    if is_encrypted:
        return f"LoadCredentialEncrypted={CREDENTIAL_NAME}:{path or CREDENTIAL}"
    return f"LoadCredential={CREDENTIAL_NAME}:{path or PASSPHRASE}"


def with_passphrase(command: str) -> str:
    """Shell that runs a command as a service with the passphrase, whichever file has it."""
    encrypted, plain = (credential(is_encrypted=one) for one in (True, False))
    error = {"message": _NOT_STORED, "fix": _FIX}
    complaints = (f"Error: {_NOT_STORED}. fix: {_FIX}", json.dumps({"error": error}))
    human, machine = map(shlex.quote, complaints)
    return (
        f"if [ -e {CREDENTIAL} ]; then credential={encrypted}\n"
        f"elif [ -e {PASSPHRASE} ]; then credential={plain}\n"
        f"else echo {human} >&2; echo {machine}; exit 1; fi\n"
        f'exec {RUN} --property="$credential" {command}'
    )


def exporting() -> list[str]:
    """The command that prints the key of the repository; root runs it."""
    words = shlex.join((installed_at("borg"), "export-key"))
    return ["sh", "-c", f"cd / || exit\n{with_passphrase(words)}"]
