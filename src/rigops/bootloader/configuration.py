"""What every bootloader's module can do, and the texts that it does it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from rigops.bootloader import tokens
from rigops.bootloader.refusal import CannotEditError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.bootloader.tokens import Finder

RUNNING: Final = "/proc/cmdline"


@dataclass(frozen=True)
class Edit:
    """`before` and `after`: the whole text, None where there is no file."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Files(Mapping[str, str]):
    """Texts by path. `inexact`: what was hidden or lost on the way, so good only to be read."""

    texts: Mapping[str, str] = field(default_factory=dict)
    inexact: frozenset[str] = frozenset()

    def __getitem__(self, path: str) -> str:
        return self.texts[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def exact(self, path: str) -> str:
        if path in self.inexact:
            reason = "what was read of it is not all of it, byte for byte (a secret is hidden?)"
            raise CannotEditError(reason, path)
        return self.texts[path]

    def below(self, folder: str, ending: str) -> tuple[str, ...]:
        """Paths of files right in this folder, in their order."""
        return tuple(
            sorted(
                path
                for path in self.texts
                if path.rpartition("/")[0] == folder and path.endswith(ending)
            )
        )


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
    before = files.texts[path]
    try:
        after = tokens.changed(before, find, new_line, add=add, remove=remove)
    except CannotEditError as error:
        raise CannotEditError(error.reason, path) from error
    return (Edit(path, files.exact(path), after),) if after != before else ()
