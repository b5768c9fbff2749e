"""Where a restore is made before it gets its name, and the note of it for the next run."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.nested_moves import make_like
from rigops.backup.host.state_file import replace_file
from rigops.hostside.shared.beneath import Entry, make_private, open_beneath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.hostside.shared.beneath import Folder

UNFINISHED = "/var/lib/rigops/restoring.json"

BEGINNING = ".rigops-restore-"


class Moves(NamedTuple):
    """Subvolumes inside of an old one, which the new one is to get. All paths are absolute."""

    old: str
    new: str
    nested: tuple[str, ...]


class Unfinished(NamedTuple):
    """Folders that a running restore makes or swaps."""

    path: str
    moves: Moves | None = None


@contextmanager
def open_or_make(start: Folder, inside: str, like: Folder) -> Iterator[Folder]:
    """A folder that is missing is made as it is below `like`."""
    with ExitStack() as opened:
        at = start
        for part in filter(None, inside.split("/")):
            like = opened.enter_context(open_beneath(like, part))
            if at.entry(part).look() is None:
                make_like(like, at.entry(part))
            at = opened.enter_context(open_beneath(at, part))
        yield at


@contextmanager
def workspace(parent: Folder) -> Iterator[Folder]:
    """A folder in `parent` that only root gets into."""
    entry = parent.entry(temporary_name())
    note(f"{os.path.realpath(parent.at)}/{entry.name}")
    try:
        with make_private(entry) as inside:
            yield inside
    finally:
        remove_tree(entry)
        forget()


def remove_tree(entry: Entry) -> None:
    """However deep it is. A link itself goes, and nothing that it leads to."""
    words = ["rm", "-rf", "--one-file-system", "--", entry.at]
    subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)


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
