"""Stage host keys: the captured keys of sshd from the backup, so that no client sees a new one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rigops.backup.engine import RestoreRequest
from rigops.errors import Problem, RigopsError
from rigops.reprovision import trust
from rigops.transport import TransportError
from rigops.transport.errors import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from rigops.backup.borg import BorgEngine
    from rigops.capture.document import Capture
    from rigops.reprovision.root_shell import RunAsRoot
    from rigops.reprovision.trust import Introduction

_RUN_S: Final = 60.0
_RELOAD_TRIES, _RELOAD_PAUSE_S = 40, 0.25
_FOLDER: Final = "/etc/ssh"
_FILES: Final = {
    "ssh-ed25519": "ssh_host_ed25519_key",
    "ssh-rsa": "ssh_host_rsa_key",
    "ecdsa-sha2-nistp256": "ssh_host_ecdsa_key",
    "ecdsa-sha2-nistp384": "ssh_host_ecdsa_key",
    "ecdsa-sha2-nistp521": "ssh_host_ecdsa_key",
}
SHOW: Final = 'for file; do ssh-keygen -lf "$file.pub" | cut -d " " -f 2; done'
IS_BESIDE: Final = "ls /etc/ssh/ssh_host_*_key*.before-restore-* >/dev/null 2>&1"
# The keys in the place of the captured ones are this installation's alone.
RELOAD: Final = r"""
set -eu
for file; do chmod 600 "$file"; done
$(command -v sshd || echo /usr/sbin/sshd) -t
systemctl reload ssh 2>/dev/null || systemctl reload sshd
rm -f /etc/ssh/ssh_host_*_key.before-restore-* /etc/ssh/ssh_host_*_key.pub.before-restore-*
"""


def key_files(capture: Capture) -> tuple[str, ...]:
    return tuple(f"{_FOLDER}/{_FILES[one.type]}" for one in capture.host_keys if one.type in _FILES)


def has_captured_keys(capture: Capture, run: RunAsRoot) -> bool:
    files = key_files(capture)
    wanted = [one.fingerprint for one in capture.host_keys if one.type in _FILES]
    return _fingerprints(files, run) == wanted


def restore_host_keys(
    capture: Capture, borg: BorgEngine, host: str, run: RunAsRoot, *, of: str = ""
) -> None:
    """Each file takes its place whole; see put_in_force."""
    for path in _with_public(key_files(capture)):
        borg.restore(RestoreRequest(path=path, in_place=True, of=of), dry_run=False)
    if not has_captured_keys(capture, run):
        raise RigopsError(
            Problem(
                message="the host keys in the backup are not the captured ones",
                host=host,
                fix=f"see {_FOLDER}/*.before-restore-*, which are the keys of the new system",
            )
        )


def is_still_to_be_put_in_force(run: RunAsRoot) -> bool:
    """Whether the keys of the new system are still beside those that were restored."""
    return run(["sh", "-c", IS_BESIDE], _RUN_S).exit_code == 0


def put_in_force(capture: Capture, host: str, run: RunAsRoot) -> None:
    """The running sshd reads them once all are there and right."""
    answer = run(["sh", "-c", RELOAD, "rigops", *key_files(capture)], _RUN_S)
    if answer.exit_code != 0:
        raise RigopsError(
            Problem(
                message=f"sshd does not take the restored host keys: {clean(answer.stderr)}",
                host=host,
                fix="see sshd -t there",
            )
        )


def introduce_reloaded(
    introduce: Callable[[], Introduction], captured: Collection[str]
) -> Introduction:
    """Sshd reloads in its own time, and until then answers by the old keys, or refuses."""
    left = _RELOAD_TRIES
    while True:
        try:
            found = introduce()
            if found.fingerprint in captured:
                return found
            raise trust.not_accepted(found, "it is not the captured one")
        except TransportError:
            if not left:
                raise
        left -= 1
        time.sleep(_RELOAD_PAUSE_S)


def _with_public(files: Sequence[str]) -> Iterator[str]:
    for file in files:
        yield from (file, f"{file}.pub")


def _fingerprints(files: Sequence[str], run: RunAsRoot) -> list[str]:
    answer = run(["sh", "-c", SHOW, "rigops", *files], _RUN_S)
    return answer.stdout.decode(errors="replace").split()
