"""What is known about a host until something changes it: pyinfra itself asks every time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinfra.api.facts import FactBase

Fact = TypeVar("Fact")
Key = tuple[type, str, str]


class Memo:
    """Facts by class and arguments. Any command that is not a fact's empties it."""

    def __init__(self) -> None:
        self._known: dict[Key, Any] = {}
        self._reading = False

    def seed(self, fact: type[FactBase[Fact]], value: Fact) -> None:
        self._known[_key(fact, (), {})] = value

    def get(
        self,
        fetch: Callable[..., Any],
        fact: type[FactBase[Fact]],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Any:
        key = _key(fact, args, kwargs)
        if key not in self._known:
            with self._fact_is_read():
                value = fetch(fact, *args, **kwargs)
            self._known[key] = value
        return self._known[key]

    def command_is_run(self) -> None:
        if not self._reading:
            self._known.clear()

    @contextmanager
    def _fact_is_read(self) -> Iterator[None]:
        before, self._reading = self._reading, True
        try:
            yield
        finally:
            self._reading = before


def _key(fact: type, args: tuple[object, ...], kwargs: dict[str, object]) -> Key:
    return fact, repr(args), repr(sorted(kwargs.items()))
