"""A place on a server, over ssh: the key there may run this program's `serve`, and nothing else."""

from __future__ import annotations

import json
import shlex
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rigops.concerns.snapshots.host.btrfs import HostError, last_line
from rigops.concerns.snapshots.host.place import SnapshotCopy

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY_FILE = "/etc/rigops/snapshots_key"
KNOWN_HOSTS_FILE = "/etc/rigops/snapshots_known_hosts"

_SSH_FAILED = 255
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=accept-new",
    f"UserKnownHostsFile={KNOWN_HOSTS_FILE}",
    "IdentitiesOnly=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "Compression=no",
)
_REFUSALS = (
    (
        "Permission denied",
        "does not accept this host's key",
        "rigops snapshots HOST --target-setup prints what the server needs",
    ),
    (
        "Host key verification failed",
        "has another host key than before",
        f"make sure that it is the server, then remove its line from {KNOWN_HOSTS_FILE}",
    ),
    (
        "not found",
        "has no program for this key",
        "rigops snapshots HOST --target-setup prints what the server needs",
    ),
)


class UnreachableError(HostError):
    """It may be back at the next run."""


class RemotePlace:
    """As a LocalPlace; the folder for all of it is in the server's authorized_keys."""

    def __init__(self, login: str) -> None:
        self.name = login

    def folders(self) -> list[str]:
        return [str(one) for one in self._ask("folders")]

    def copies(self, folder: str) -> list[SnapshotCopy]:
        return sorted(
            SnapshotCopy(str(one[0]), str(one[1]), str(one[2]), bool(one[3]), bool(one[4]))
            for one in self._ask("list", folder)
        )

    def delete(self, folder: str, snapshot: str) -> None:
        self._ask("delete", folder, snapshot)

    def send(self, folder: str, snapshot: str, parent: str = "") -> subprocess.Popen[bytes]:
        words = ["send", folder, snapshot, *([parent] if parent else [])]
        return subprocess.Popen(
            self._words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def tar(self, folder: str, snapshot: str, inside: str) -> subprocess.Popen[bytes]:
        """Its output has the names below the top of the snapshot."""
        return subprocess.Popen(
            self._words("tar", folder, snapshot, shlex.quote(inside)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def receive(self, folder: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._words("receive", folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def measure(self, folder: str, snapshot: str) -> int | None:
        """Not known before it is sent."""
        del folder, snapshot
        return None

    def room(self) -> tuple[int, int]:
        free, size = self._ask("room")
        return int(free), int(size)

    def sync(self) -> None:
        """The server does it after each change."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The server locks the place for each command that writes."""
        yield

    def _ask(self, *words: str) -> list[Any]:
        done = subprocess.run(
            self._words(*words), check=False, capture_output=True, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise self._error(done.returncode, done.stderr.decode(errors="replace"))
        try:
            found = json.loads(done.stdout or b"[]")
        except ValueError:
            found = None
        if not isinstance(found, list):
            raise HostError(
                f"{self.name}: something else than the snapshot program answers",
                "rigops snapshots HOST --target-setup prints what the server needs",
            )
        return found

    def _words(self, *words: str) -> list[str]:
        login, _, _ = self.name.partition(":")
        options = [part for one in _OPTIONS for part in ("-o", one)]
        return ["ssh", "-T", "-i", KEY_FILE, *options, "--", login, " ".join(words)]

    def _error(self, code: int, stderr: str) -> HostError:
        line = last_line(stderr).replace("Error: ", "", 1)
        for shape, what, fix in _REFUSALS:
            if shape in stderr and (code == _SSH_FAILED or shape == "not found"):
                return HostError(f"{self.name} {what}", fix)
        if code == _SSH_FAILED:
            return UnreachableError(f"{self.name} is unreachable: {line or 'ssh says nothing'}")
        message, _, fix = line.partition(". fix: ")
        return HostError(f"{self.name}: {message or 'failed without a message'}", fix)
