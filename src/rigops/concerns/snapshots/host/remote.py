"""A place on a server, over ssh: the key there may run this program's `serve`, and nothing else."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rigops.backup.host.btrfs import BtrfsError, last_line
from rigops.backup.host.errors import HostError
from rigops.backup.host.server_access import (
    append_line,
    read_public_key,
    snapshots_key_line,
)
from rigops.backup.host.snapshot_names import is_folder_name, parse_snapshot_name
from rigops.concerns.snapshots.host.place import SnapshotCopy
from rigops.concerns.snapshots.host.pump import pump
from rigops.hostside.shared.bounded import (
    ANSWER_S,
    SILENCE_S,
    BoundedChild,
    ChildError,
    FloodError,
    run_bounded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

KEY_FILE = "/etc/rigops/snapshots_key"
KNOWN_HOSTS_FILE = "/etc/rigops/snapshots_known_hosts"

_SSH_FAILED = 255
_LARGEST = 1 << 63  # of a file system
_KINDS = ("directory", "file")
_UUID_SHAPE = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=accept-new",
    f"UserKnownHostsFile={KNOWN_HOSTS_FILE}",
    "IdentitiesOnly=yes",
    "ControlPath=none",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "Compression=no",
)
_REFUSALS = (
    (
        "Permission denied",
        "does not accept this host's key",
        "",  # with the key itself
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

    def __init__(self, message: str) -> None:
        super().__init__(message, "see the network and the server")


class RemotePlace:
    """As a LocalPlace; the folder for all of it is in the server's authorized_keys.

    The server's answer counts only if it has the right shape.
    """

    def __init__(self, login: str) -> None:
        self.name = login

    def folders(self) -> list[str]:
        found = self._ask("folders")
        self._demand(isinstance(one, str) and is_folder_name(one) for one in found)
        return sorted(found)

    def copies(self, folder: str) -> list[SnapshotCopy]:
        found = self._ask("list", folder)
        self._demand(map(_is_copy, found))
        return sorted(SnapshotCopy(*one) for one in found)

    def kind_of(self, folder: str, snapshot: str, inside: str) -> tuple[str, int]:
        """`directory` or `file`, and the bytes of a file; empty where nothing is."""
        found = self._ask("look", folder, snapshot, shlex.quote(inside))
        if not found:
            return "", 0
        self._demand([len(found) == 2 and found[0] in _KINDS and _is_size(found[1])])  # noqa: PLR2004 - words
        return found[0], found[1]

    def delete(self, folder: str, snapshot: str) -> None:
        self._ask("delete", folder, snapshot, most_s=SILENCE_S)

    def send(self, folder: str, snapshot: str, parent: str = "") -> BoundedChild:
        return self._start("send", folder, snapshot, *([parent] if parent else []))

    def tar(self, folder: str, snapshot: str, inside: str) -> BoundedChild:
        """Its output has one name at its top, the last of the path; without a path, all names."""
        return self._start("tar", folder, snapshot, shlex.quote(inside))

    def receive(
        self, folder: str, name: str, stream: int, count: Callable[[int], None], origin: str = ""
    ) -> None:
        del origin  # of a stream that this host makes
        what = f"{self.name}: receiving {name}"
        with BoundedChild(self._words("receive", folder, name), stdin=subprocess.PIPE) as child:
            try:
                pump(stream, child.input.fileno(), count)
                child.input.close()
                code = child.wait(SILENCE_S)
            except ChildError as error:
                raise HostError(f"{what}: {error}", "run it again") from None
            if code == _SSH_FAILED:
                raise self._error(code, child.errors)
            if code != 0:
                raise BtrfsError(what, child.errors)

    def away(self, error: Exception) -> HostError | None:
        """What it means, if this place is not there any more."""
        return error if isinstance(error, UnreachableError) else None

    def clear(self) -> bool:
        """The server does it before it receives."""
        return False

    def measure(self, folder: str, snapshot: str) -> int | None:
        """Not known before it is sent."""
        del folder, snapshot
        return None

    def room(self) -> tuple[int, int]:
        found = self._ask("room")
        self._demand([len(found) == 2, *map(_is_size, found)])  # noqa: PLR2004 - words
        return found[0], found[1]

    def sync(self) -> None:
        """The server does it after each change."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The server locks the place for each command that writes."""
        yield

    def _start(self, *words: str) -> BoundedChild:
        return BoundedChild(self._words(*words), stdout=subprocess.PIPE)

    def _ask(self, *words: str, most_s: float = ANSWER_S) -> list[Any]:
        try:
            answer = run_bounded(self._words(*words), most_s=most_s)
        except FloodError:
            raise self._no_answer() from None
        except ChildError as error:
            raise UnreachableError(f"{self.name} {error}") from None
        if answer.code != 0:
            raise self._error(answer.code, answer.errors)
        try:
            found = json.loads(answer.output)
        except (ValueError, RecursionError):
            found = None
        self._demand([isinstance(found, list)])
        return list(found)

    def _demand(self, has_shape: Iterable[bool]) -> None:
        if not all(has_shape):
            raise self._no_answer()

    def _no_answer(self) -> HostError:
        return HostError(
            f"{self.name}: something else than the snapshot program answers",
            "rigops snapshots HOST --target-setup prints what the server needs",
        )

    def _words(self, *words: str) -> list[str]:
        login, _, _ = self.name.partition(":")
        options = [part for one in _OPTIONS for part in ("-o", one)]
        return ["ssh", "-T", "-i", KEY_FILE, *options, "--", login, " ".join(words)]

    def _let_in(self) -> str:
        login, _, path = self.name.partition(":")
        setup = f"run `rigops snapshots HOST --target-setup | ssh {login} sh`"
        key = read_public_key(KEY_FILE)
        line = append_line(login, snapshots_key_line(path, key))
        return f"{setup}; or, with the program there, {line}" if key else setup

    def _error(self, code: int, stderr: str) -> HostError:
        line = last_line(stderr).replace("Error: ", "", 1)
        for shape, what, fix in _REFUSALS:
            if shape in stderr and (code == _SSH_FAILED or shape == "not found"):
                return HostError(f"{self.name} {what}", fix or self._let_in())
        if code == _SSH_FAILED:
            return UnreachableError(f"{self.name} is unreachable: {line or 'ssh says nothing'}")
        message, _, fix = line.partition(". fix: ")
        return HostError(f"{self.name}: {message or 'failed without a message'}", fix)


def _is_copy(found: object) -> bool:
    return (
        isinstance(found, list)
        and [type(one) for one in found] == [str, str, str, bool]
        and parse_snapshot_name(found[0]) is not None
        and all(_UUID_SHAPE.fullmatch(one) for one in found[1:3])
    )


def _is_size(found: object) -> bool:
    return type(found) is int and 0 <= found < _LARGEST
