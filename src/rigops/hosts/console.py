"""The console of work on hosts, which also asks: the command line, or a test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rigops.backup.engine import Progress as Copied


class HostProgress(Protocol):
    """The present step of each host. Used by several threads at once."""

    def begin(self, host: str) -> None: ...
    def say(self, host: str, text: str) -> None: ...
    def say_copied(self, host: str, found: Copied) -> None: ...
    def end(self, host: str, outcome: str) -> None: ...
    @property
    def unfinished(self) -> list[str]: ...
    def silent(self) -> AbstractContextManager[None]:
        """Surrounds a question, and lines that are printed meanwhile."""
        ...


class Console(Protocol):
    def tell(self, *lines: str) -> None: ...
    def progress(self, doing: str, /) -> AbstractContextManager[HostProgress]: ...
    def agrees(self, question: str) -> bool:
        """Not where there is no terminal to answer on."""
        ...
