"""What every bootloader's module can do, and what several of them share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from rigops.concerns.kernel_args.bootloader import tokens
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.kernel_args.bootloader.tokens import Finder
    from rigops.probe.boot_files import Files

# A full /boot would end a menu, or a kernel, in the middle.
_ROOM: Final = """\
    room() { # FOLDER KIB
        free=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
        [ "${free:-0}" -ge "$2" ] && return
        echo "$1 has $free KiB free, and $2 KiB are needed: make room there," \\
            "for instance by removing old kernels" >&2
        return 1
    }
"""


@dataclass(frozen=True)
class Edit:
    """`before` and `after`: the whole text, None where there is no file."""

    path: str
    before: str | None
    after: str | None


def exact(files: Files, path: str) -> str:
    """The text, byte for byte as it is on the host."""
    if path in files.inexact:
        reason = "what was read of it is not all of it, byte for byte (a secret is hidden?)"
        raise CannotEditError(reason, path)
    return files[path]


class Configuration(Protocol):
    """Where one bootloader has the arguments of every normal boot. Nothing here is done, only said.

    `add`: arguments that nobody else has there; `remove`: those that were added before.
    """

    @property
    def title(self) -> str:
        """What a person calls it."""

    def arguments(self, files: Files) -> tuple[str, ...]:
        """Those of the next normal boot, as configured."""

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        """Raises CannotEditError rather than corrupt a file."""

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        """Shell that makes the edited files count, run after them; empty where nothing has to be.

        It is one statement under `set -eu`, and may be run again.
        """

    def by_hand(self, wanted: Iterable[str]) -> str:
        """A clause that tells a person what to do."""


def edit(
    files: Files,
    path: str,
    find: Finder,
    new_line: str = "",
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> tuple[Edit, ...]:
    """At most one: none where the file stays as it is."""
    before = files[path]
    try:
        after = tokens.changed(before, find, new_line, add=add, remove=remove)
    except CannotEditError as error:
        raise CannotEditError(error.reason, path) from error
    return (Edit(path, exact(files, path), after),) if after != before else ()


def apart(steps: str, *, needs_room: bool = False) -> str:
    """One statement, whose variables, functions and traps are its own."""
    body = "".join(f"    {line}\n" if line else "\n" for line in steps.splitlines())
    return f"(\n{_ROOM if needs_room else ''}{body})\n"


def synced(folders: Iterable[str]) -> str:
    """Empty where there is nothing. A FAT file system keeps no journal."""
    found = sorted(set(folders))
    return f"{shlex.join(('sync', *found))}\n" if found else ""
