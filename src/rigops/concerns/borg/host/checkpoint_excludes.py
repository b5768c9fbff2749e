"""Older checkpoints below the declared paths, and the file by which borg leaves them out."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import as_host_error
from rigops.backup.host.state_file import replace_file
from rigops.concerns.borg.host.borg_process import BORG_FILES
from rigops.concerns.borg.host.checkpoint_series import FolderEntry, older_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_settings import BorgSettings

LEFT_OUT = f"{BORG_FILES}/checkpoints_left_out"

_SERIES_KINDS = (stat.S_IFDIR, stat.S_IFREG)


class OldCheckpoints(NamedTuple):
    """`found`: by declared path; a checkpoint has one path, or those of its parts.

    `links`: what symbolic links beside them lead to.
    """

    found: dict[str, list[tuple[str, ...]]]
    links: frozenset[str]


def checkpoint_excludes(settings: BorgSettings, output: Output) -> tuple[int, list[str]]:
    """How many are left out, and the words for borg. Reads what borg is about to read."""
    if not settings.checkpoints:
        return 0, []
    old = find_old_checkpoints(settings.checkpoints)
    needed = _with_parents((*settings.paths, *settings.checkpoints, *old.links))
    count, paths = 0, []
    for path, newest in settings.checkpoints.items():
        going = [one for one in old.found[path] if needed.isdisjoint(one) and _is_line(*one)]
        count += len(going)
        paths += [name for one in going for name in one]
        number = f"checkpoints left out: {len(going)}"
        output.notice(f"{path}: {number}; of each series, the newest {newest} stay")
    try:
        Path(BORG_FILES).mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(Path(LEFT_OUT), exclude_lines(paths))
    except OSError as error:
        raise as_host_error("the list of older checkpoints", error) from error
    return count, ["--patterns-from", LEFT_OUT]


def exclude_lines(paths: Iterable[str]) -> str:
    """`pf` is looked up, however many there are, and borg does not go into what `!` names.

    With `pp` in --exclude-from it compares each with every file of the backup.
    """
    return "".join(f"! pf:{path}\n" for path in paths)


def find_old_checkpoints(declared: Mapping[str, int]) -> OldCheckpoints:
    """A path below another declared one has its own number."""
    links: set[str] = set()
    found: dict[str, list[tuple[str, ...]]] = {}
    for path, newest in declared.items():
        others = declared.keys() - {path}
        found[path] = list(_old_below(path, newest, others, links))
    return OldCheckpoints(found, frozenset(links))


def _old_below(
    top: str, newest: int, others: Iterable[str], links: set[str]
) -> Iterator[tuple[str, ...]]:
    """As borg does, it follows no link and stays on one file system."""
    try:
        device = os.lstat(top).st_dev
    except OSError:
        return
    left = [top]
    while left:
        folder = left.pop()
        entries = _entries(folder, device, links)
        old = older_checkpoints(entries, newest)
        yield from (tuple(f"{folder.rstrip('/')}/{name}" for name in names) for names in old)
        gone = {name for names in old for name in names}
        below = [one.name for one in entries if one.is_folder and one.name not in gone]
        paths = (f"{folder.rstrip('/')}/{name}" for name in sorted(below, reverse=True))
        left += [path for path in paths if path not in others]


def _entries(folder: str, device: int, links: set[str]) -> list[FolderEntry]:
    """Folders and files that can be read, sorted; what is not known stays in the backup."""
    found: list[FolderEntry] = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            with suppress(OSError):  # a source that is read live changes meanwhile
                path = f"{folder.rstrip('/')}/{name}"
                look = os.lstat(path)
                if stat.S_ISLNK(look.st_mode):
                    target = os.readlink(path)
                    links.add(os.path.normpath(os.path.join(folder, target)))
                elif look.st_dev == device and stat.S_IFMT(look.st_mode) in _SERIES_KINDS:
                    found.append(FolderEntry(name, stat.S_ISDIR(look.st_mode)))
    return found


def _with_parents(paths: Iterable[str]) -> set[str]:
    return {str(one) for path in paths for one in (Path(path), *Path(path).parents)}


def _is_line(*paths: str) -> bool:
    """Whether borg reads from a file what is meant: lines of UTF-8."""
    try:
        return not any(end in os.fsencode(path).decode() for path in paths for end in ("\n", "\r"))
    except UnicodeDecodeError:
        return False
