"""What is known about a host until something changes it: pyinfra itself asks every time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rigops.converge.missing import Missing
from rigops.facts.files import FileAt, FileFound
from rigops.facts.sections import RigopsState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pyinfra.api.facts import FactBase

    from rigops.operations.take_steps import TakeSteps
    from rigops.owned import Present

Fact = TypeVar("Fact")
Key = tuple[type, str, str]


class Memo:
    """Facts by class and arguments. Any command that is not a fact's empties it.

    While it guesses, what nobody has looked at yet is guessed and noted down, so that one look can
    bring all of it.
    """

    def __init__(self) -> None:
        self._known: dict[Key, Any] = {}
        self._reading = False
        self._guessing = False
        self.missing = Missing()

    def seed(self, fact: type[FactBase[Fact]], value: Fact, **asked: object) -> None:
        self._known[_key(fact, (), asked)] = value

    def seed_files(self, paths: Collection[str], found: Mapping[str, FileFound]) -> None:
        for path in paths:
            self.seed(FileAt, found.get(path), path=path)

    def get(
        self,
        fetch: Callable[..., Any],
        fact: type[FactBase[Fact]],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Any:
        key = _key(fact, args, kwargs)
        if key in self._known:
            return self._known[key]
        if self._guessing and self.missing.takes(fact):
            return self.missing.note(fact, kwargs)
        with self._fact_is_read():
            value = fetch(fact, *args, **kwargs)
        self._known[key] = value
        return value

    @contextmanager
    def guessing(self) -> Iterator[None]:
        """Afterwards it is known what was missing."""
        self.missing = Missing()
        self._guessing = True
        try:
            yield
        finally:
            self._guessing = False

    def command_is_run(self) -> bool:
        """Whether it may change something: a fact's own command does not."""
        if not self._reading:
            self._known.clear()
        return not self._reading

    def steps_are_taken(self, command: TakeSteps) -> None:
        """What they leave behind is known without looking, but for what their effects touch."""
        state = self._known.get(_key(RigopsState, (), {}))
        for fact in command.touches:
            self._known.pop(_key(fact, (), {}), None)
        if state is None:
            return
        foreseen = command.foreseen(state)
        self._known[_key(RigopsState, (), {})] = foreseen
        for step_path in command.paths:
            self._known[_key(FileAt, (), {"path": step_path})] = _found(
                foreseen.present.get(step_path), command.work.contents.get(step_path, b"")
            )

    @contextmanager
    def _fact_is_read(self) -> Iterator[None]:
        before, self._reading = self._reading, True
        try:
            yield
        finally:
            self._reading = before


def _found(present: Present | None, content: bytes) -> FileFound | None:
    if present is None:
        return None
    return FileFound(present.digest, present.mode, content.decode("utf-8", "replace"))


def _key(fact: type, args: tuple[object, ...], kwargs: dict[str, object]) -> Key:
    return fact, repr(args), repr(sorted(kwargs.items()))
