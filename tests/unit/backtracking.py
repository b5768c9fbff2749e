"""The steps that `re` takes for a text, counted: no clock and no busy machine has a say in them.

It tries what `re` tries, in the same order. What makes `re` faster by a constant, such as looking
for the first letter of a pattern, is not done here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

__all__ = ["Backtracking", "TooManyStepsError", "compiler", "parsed", "parser"]

if sys.version_info >= (3, 11):
    from re import _compiler as compiler  # type: ignore[attr-defined]  # of patterns
    from re import _parser as parser  # type: ignore[attr-defined]  # private, and there
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


@dataclass
class _Alone:
    """One character or a place, which many patterns have."""

    pattern: re.Pattern[str]
    taken: dict[str, bool]  # characters that were tried


@dataclass
class _Item:
    """Of a pattern. `bodies` are what it repeats, groups, asserts or chooses from."""

    kind: str
    value: Any
    bodies: list[list[_Item]]
    alone: _Alone


_ALONE: Final[dict[tuple[str, int], _Alone]] = {}
_NOTHING: Final = _Alone(re.compile(""), {})


class Backtracking:
    def __init__(self, pattern: AnyPattern, most: int) -> None:
        self._flags = pattern.flags & OF_THE_PATTERN
        self._items = self._prepared(parsed(pattern))
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

    def _prepared(self, items: Any) -> list[_Item]:
        return [self._item_of(one) for one in items]

    def _item_of(self, item: Any) -> _Item:
        kind, value = str(item[0]), item[1]
        inner: list[Any] = []
        alone = _NOTHING
        if kind in _ONE_CHARACTER or kind == "AT":
            alone = _alone(item, self._flags)
        elif kind == "BRANCH":
            inner = value[1]
        elif kind == "SUBPATTERN":
            inner = [value[3]]
        elif kind in _REPEATS:
            inner = [value[2]]
        elif kind == "ATOMIC_GROUP":
            inner = [value]
        elif kind in {"ASSERT", "ASSERT_NOT"}:
            inner = [value[1]]
        elif kind != "GROUPREF":
            raise NotImplementedError(kind)
        return _Item(kind, value, [self._prepared(one) for one in inner], alone)

    def _sequence(self, items: list[_Item], first: int, at: int) -> Iterator[int]:
        """Where the items from the first on can end: what `re` tries first comes first."""
        self._step()
        for number in range(first, len(items)):
            item = items[number]
            if item.kind in _ONE_CHARACTER:
                if not self._is_taken(item, at):
                    return
                at += 1
                self._step()
                continue
            for end in self._item(item, at):
                yield from self._sequence(items, number + 1, end)
            return
        yield at

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise TooManyStepsError

    def _item(self, item: _Item, at: int) -> Iterator[int]:  # noqa: C901 - a branch a kind
        """Of those that are more than one character."""
        kind, value = item.kind, item.value
        if kind == "AT":
            if item.alone.pattern.match(self._text, at):
                yield at
        elif kind == "BRANCH":
            for way in item.bodies:
                yield from self._sequence(way, 0, at)
        elif kind == "SUBPATTERN":
            yield from self._group(value[0], item.bodies[0], at)
        elif kind in _REPEATS:
            low, high, body = int(value[0]), int(value[1]), item.bodies[0]
            single = len(body) == 1 and body[0].kind in _ONE_CHARACTER
            ends = (self._run if single else self._rounds)(kind, body, low, high, at)
            yield from ends if kind != "POSSESSIVE_REPEAT" else _first(ends)
        elif kind == "ATOMIC_GROUP":
            yield from _first(self._sequence(item.bodies[0], 0, at))
        elif kind in {"ASSERT", "ASSERT_NOT"}:
            direction, body = value
            start = at if direction > 0 else at - body.getwidth()[0]
            found = start >= 0 and any(True for _ in self._sequence(item.bodies[0], 0, start))
            if found == (kind == "ASSERT"):
                yield at
        else:
            start, end = self._groups.get(value, (0, -1))
            if end >= start and self._text.startswith(self._text[start:end], at):
                yield at + end - start

    def _group(self, number: int | None, body: list[_Item], at: int) -> Iterator[int]:
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

    def _run(self, kind: str, body: list[_Item], low: int, high: int, at: int) -> Iterator[int]:
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

    def _rounds(self, kind: str, body: list[_Item], low: int, high: int, at: int) -> Iterator[int]:
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

    def _is_taken(self, item: _Item, at: int) -> bool:
        self._step()
        if at >= len(self._text):
            return False
        character, alone = self._text[at], item.alone
        if character not in alone.taken:
            alone.taken[character] = alone.pattern.fullmatch(character) is not None
        return alone.taken[character]


def _alone(item: Any, flags: int) -> _Alone:
    key = str(item), flags
    if key not in _ALONE:
        parsed_alone = parser.parse("x", flags)
        parsed_alone.data[:] = [item]
        _ALONE[key] = _Alone(compiler.compile(parsed_alone, flags), {})
    return _ALONE[key]


def _first(ends: Iterator[int]) -> Iterator[int]:
    for end in ends:
        yield end
        return
