"""Where a restore is made before it gets its name, and the note of it for the next run."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.marks import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNFINISHED = "/var/lib/rigops/restoring.json"

_OPEN = os.O_RDONLY | os.O_DIRECTORY
BEGINNING = ".rigops-restore-"


class Moves(NamedTuple):
    """Subvolumes inside of an old one, which the new one is to get. All paths are absolute."""

    old: str
    new: str
    nested: tuple[str, ...]


class Unfinished(NamedTuple):
    """What a restore makes or swaps just now."""

    path: str
    moves: Moves | None = None


class Folder(NamedTuple):
    """One that is open: whoever owns what is above cannot put another in its place."""

    path: str
    number: int

    def at(self, name: str) -> str:
        """A path for this process and for those that it starts."""
        return f"/proc/{os.getpid()}/fd/{self.number}/{name}"


@contextmanager
def open_folder(path: str) -> Iterator[Folder]:
    number = os.open(path, _OPEN)
    try:
        yield Folder(path, number)
    finally:
        os.close(number)


@contextmanager
def open_below(start: str, names: Sequence[str], like: str = "") -> Iterator[Folder]:
    """A folder reached without a symbolic link. One that is missing is made `like` that one."""
    number = os.open(start, _OPEN)
    path = start.rstrip("/")
    try:
        for name in names:
            path, like = f"{path}/{name}", f"{like}/{name}" if like else ""
            if like:
                _make_like(like, name, number)
            deeper = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=number)
            os.close(number)
            number = deeper
        yield Folder(path or "/", number)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise HostError(
                f"{path} is no directory now, or a symbolic link", "restore with --to DIR"
            ) from error
        raise
    finally:
        os.close(number)


def _make_like(like: str, name: str, above: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return
    owner = Path(like).stat()
    made = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=above)
    try:
        os.chown(made, owner.st_uid, owner.st_gid)
        shutil.copystat(like, f"/proc/self/fd/{made}")
    finally:
        os.close(made)


@contextmanager
def workspace(parent: Folder) -> Iterator[Folder]:
    """A folder in `parent` that only root gets into."""
    name = temporary_name()
    note(f"{parent.path}/{name}")
    try:
        os.mkdir(name, 0o700, dir_fd=parent.number)
        with open_below(parent.at(""), [name]) as inside:
            yield inside
    finally:
        shutil.rmtree(parent.at(name), ignore_errors=True)
        forget()


def temporary_name() -> str:
    return f"{BEGINNING}{secrets.token_hex(8)}"


def note(path: str, moves: Moves | None = None) -> None:
    """Before it is made: what the next run removes or ends unless `forget` comes first."""
    Path(UNFINISHED).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(Path(UNFINISHED), json.dumps({"path": path, "moves": moves}))


def read_unfinished() -> Unfinished | None:
    try:
        found = json.loads(Path(UNFINISHED).read_text(encoding="utf-8"))
        moves = found.get("moves")
        old, new, nested = moves or ("", "", ())
        return Unfinished(
            str(found["path"]),
            Moves(str(old), str(new), tuple(map(str, nested))) if moves else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def forget() -> None:
    with suppress(FileNotFoundError):
        Path(UNFINISHED).unlink()
