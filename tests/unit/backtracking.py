"""The steps that `re` takes for a text, counted: no clock and no busy machine has a say in them.

It tries what `re` tries, in the same order. What makes `re` faster by a constant, such as looking
for the first letter of a pattern, is not done here.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

__all__ = ["Backtracking", "TooManyStepsError", "compiler", "parsed", "parser"]

if sys.version_info >= (3, 11):
    from re import _compiler as compiler  # type: ignore[attr-defined]  # of patterns
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_compile as compiler
    import sre_parse as parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.patterns import AnyPattern

OF_THE_PATTERN: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII
_ONE_CHARACTER: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN"})
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})


class TooManyStepsError(Exception):
    """No need to count on."""


def parsed(pattern: AnyPattern) -> Any:
    source = pattern.pattern
    text = source if isinstance(source, str) else source.decode("latin-1")
    return parser.parse(text, pattern.flags & OF_THE_PATTERN)


class Backtracking:
    def __init__(self, pattern: AnyPattern, most: int) -> None:
        self._items = list(parsed(pattern))
        self._flags = pattern.flags & OF_THE_PATTERN
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._takes: dict[tuple[int, str], bool] = {}
        self._groups: dict[int, tuple[int, int]] = {}
        self._text = ""
        self._most = most
        self.steps = 0

    def match(self, text: str, at: int = 0) -> int | None:
        self._text, self._groups = text, {}
        return next(self._sequence(self._items, 0, at), None)

    def fullmatch(self, text: str) -> bool:
        self._text, self._groups = text, {}
        return any(end == len(text) for end in self._sequence(self._items, 0, 0))

    def finditer(self, text: str) -> None:
        at = 0
        while at <= len(text):
            end = self.match(text, at)
            at = at + 1 if end is None else max(end, at + 1)

    def _sequence(self, items: list[Any], first: int, at: int) -> Iterator[int]:
        """Where the items from the first on can end: what `re` tries first comes first."""
        self._step()
        if first == len(items):
            yield at
            return
        for end in self._item(items[first], at):
            yield from self._sequence(items, first + 1, end)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise TooManyStepsError

    def _item(self, item: Any, at: int) -> Iterator[int]:  # noqa: C901, PLR0912 - a branch a kind
        kind, value = str(item[0]), item[1]
        if kind in _ONE_CHARACTER:
            if self._is_taken(item, at):
                yield at + 1
        elif kind == "AT":
            if self._pattern_of(item).match(self._text, at):
                yield at
        elif kind == "BRANCH":
            for way in value[1]:
                yield from self._sequence(list(way), 0, at)
        elif kind == "SUBPATTERN":
            yield from self._group(value[0], list(value[3]), at)
        elif kind in _REPEATS:
            low, high, body = int(value[0]), int(value[1]), list(value[2])
            single = len(body) == 1 and str(body[0][0]) in _ONE_CHARACTER
            ends = (self._run if single else self._rounds)(kind, body, low, high, at)
            yield from ends if kind != "POSSESSIVE_REPEAT" else _first(ends)
        elif kind == "ATOMIC_GROUP":
            yield from _first(self._sequence(list(value), 0, at))
        elif kind in {"ASSERT", "ASSERT_NOT"}:
            direction, body = value
            start = at if direction > 0 else at - body.getwidth()[0]
            found = start >= 0 and any(True for _ in self._sequence(list(body), 0, start))
            if found == (kind == "ASSERT"):
                yield at
        elif kind == "GROUPREF":
            start, end = self._groups.get(value, (0, -1))
            if end >= start and self._text.startswith(self._text[start:end], at):
                yield at + end - start
        else:
            raise NotImplementedError(kind)

    def _group(self, number: int | None, body: list[Any], at: int) -> Iterator[int]:
        for end in self._sequence(body, 0, at):
            if number is None:
                yield end
                continue
            before = self._groups.get(number)
            self._groups[number] = (at, end)
            yield end
            if before is not None:
                self._groups[number] = before
            else:
                del self._groups[number]

    def _run(self, kind: str, body: list[Any], low: int, high: int, at: int) -> Iterator[int]:
        """Of one character: no round is tried twice."""
        end = at
        while end - at < high and (kind != "MIN_REPEAT" or end - at < low):
            if not self._is_taken(body[0], end):
                break
            end += 1
        if kind == "MIN_REPEAT":
            while end - at >= low:
                yield end
                if end - at == high or not self._is_taken(body[0], end):
                    return
                end += 1
        else:
            for one in range(end, at + low - 1, -1):
                self._step()
                yield one

    def _rounds(self, kind: str, body: list[Any], low: int, high: int, at: int) -> Iterator[int]:
        rounds = [(at, self._sequence(body, 0, at))]
        if kind == "MIN_REPEAT" and low == 0:
            yield at
        while rounds:
            begin, ends = rounds[-1]
            end = next(ends, None) if len(rounds) <= high else None
            if end is None:
                rounds.pop()
                if kind != "MIN_REPEAT" and len(rounds) >= low:
                    yield begin
            elif end != begin or len(rounds) <= low:
                rounds.append((end, self._sequence(body, 0, end)))
                if kind == "MIN_REPEAT" and len(rounds) > low:
                    yield end

    def _is_taken(self, item: Any, at: int) -> bool:
        self._step()
        if at >= len(self._text):
            return False
        known = (id(item), self._text[at])
        if known not in self._takes:
            self._takes[known] = bool(self._pattern_of(item).fullmatch(self._text[at]))
        return self._takes[known]

    def _pattern_of(self, item: Any) -> re.Pattern[str]:
        if id(item) not in self._compiled:
            alone = parser.parse("x", self._flags)
            alone.data[:] = [item]
            self._compiled[id(item)] = compiler.compile(alone, self._flags)
        return self._compiled[id(item)]


def _first(ends: Iterator[int]) -> Iterator[int]:
    for end in ends:
        yield end
        return
