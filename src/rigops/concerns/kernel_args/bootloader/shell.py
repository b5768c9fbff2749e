"""Shell text: the assignments of a file with the place of each letter, and statements to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from rigops.dataclass import dataclass

BARE: Final = ""
SINGLE: Final = "'"
DOUBLE: Final = '"'

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(rf"({_NAME.pattern})(\+?)=")
_REFERENCE = re.compile(rf"\$(?:({_NAME.pattern})|\{{({_NAME.pattern})\}})")
_ACROSS_LINES = re.compile(r"\$[A-Za-z0-9_{]*\\\n")  # the shell reads the name across the lines
_COMPUTED = re.compile(r"\$[({'\"0-9@*#?$!-]|`")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_ENDS_A_WORD: Final = frozenset(" \t\n;&|<>()")
_ESCAPED_BETWEEN_QUOTES: Final = frozenset('$`"\\\n')
_DECIDES: Final = frozenset({
    "if", "then", "elif", "else", "fi", "case", "for", "while", "until", "do", "done", "{", "}",
    "!", "[", "[[", "test", ".", "source", "eval", "unset", "function",
})  # fmt: skip
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
_GOES_ON: Final = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!"})


@dataclass(frozen=True)
class Unit:
    """One letter of a value, or something that stands for letters that are unknown here."""

    letter: str
    start: int
    end: int
    quote: str = DOUBLE
    reference: str = ""  # the variable whose value belongs here


@dataclass(frozen=True)
class Value:
    units: tuple[Unit, ...]
    start: int  # where its first letter is or would be
    end: int
    quote: str = DOUBLE  # of what would be put there
    fault: str = ""  # why it must not be touched


@dataclass(frozen=True)
class Assignment:
    name: str
    value: Value
    appends: bool = False  # += of some shells


@dataclass(frozen=True)
class File:
    assignments: tuple[Assignment, ...]
    decides: str = ""  # the first word that makes the rest depend on something


def read(text: str) -> File:
    """The assignments in their order, as if every command of the file were run."""
    found: list[Assignment] = []
    decides = ""
    for kind, item in _statements(text):
        if isinstance(item, Assignment):
            found.append(item)
        elif not decides and (kind in _DECIDES or kind in {"&&", "||"}):
            decides = kind
    return File(tuple(found), decides)


def _statements(text: str) -> Iterator[tuple[str, Assignment | None]]:
    at, at_start, declares = 0, True, False
    while at < len(text):
        letter = text[at]
        if letter == "#":
            newline = text.find("\n", at)
            at = len(text) if newline < 0 else newline
        elif letter in " \t\r" or text.startswith("\\\n", at):
            at += 1 if letter != "\\" else 2
        elif letter in _ENDS_A_WORD:
            if text[at : at + 2] in {"&&", "||"}:
                yield text[at : at + 2], None
            at_start, declares = True, False
            at += 1
        elif (at_start or declares) and (shape := _ASSIGNMENT.match(text, at)):
            value = value_at(text, shape.end())
            yield "=", Assignment(shape[1], value, appends=bool(shape[2]))
            at = value.end
        else:
            word = value_at(text, at)
            written = text[at : word.end]
            yield written, None
            declares = declares or (at_start and written in {"export", "readonly"})
            at_start = at_start and written in _GOES_ON
            at = max(word.end, at + 1)


def value_at(text: str, at: int) -> Value:
    """A word from here on, as the shell reads it."""
    return _Reading(text, at).value()


class _Reading:
    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = at
        self._quote = BARE
        self._units: list[Unit] = []
        self._fault = ""

    def value(self) -> Value:
        start, quote = self._at, BARE
        while self._at < len(self._text):
            letter = self._text[self._at]
            if self._quote == BARE and (
                letter in _ENDS_A_WORD or self._text.startswith("\r\n", self._at)
            ):
                break
            self._letter(letter)
            if not self._units and self._quote:
                start, quote = self._at, self._quote
        if self._quote:
            self._fault = "a quote is not closed"
        units = tuple(self._units)
        if units:
            start, quote = units[0].start, units[0].quote
        return Value(units, start, self._at, quote, self._fault)

    def _letter(self, letter: str) -> None:
        text, at = self._text, self._at
        if letter == self._quote:
            self._quote = BARE
            self._at += 1
        elif self._quote == SINGLE:
            self._add(letter, 1)
        elif not self._quote and letter in "'\"":
            self._quote = letter
            self._at += 1
        elif letter == "\\":
            self._escape()
        elif _ACROSS_LINES.match(text, at):
            self._computed()
        elif reference := _REFERENCE.match(text, at):
            self._add("", len(reference[0]), reference[1] or reference[2])
        elif _COMPUTED.match(text, at) and not (
            self._quote
            and text[at + 1 : at + 2] in {"'", '"'}  # between quotes this is a plain dollar
        ):
            self._computed()
        else:
            self._add(letter, 1)

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "\n":
            self._at += 2
        elif not following:
            self._fault = "it ends in the middle of an escape"
            self._at += 1
        elif self._quote == BARE or following in _ESCAPED_BETWEEN_QUOTES:
            self._add(following, 2)
        else:
            self._add("\\", 1)

    def _computed(self) -> None:
        self._fault = "a part of it is computed by the shell"
        self._add("", _end_of_computed(self._text, self._at) - self._at)

    def _add(self, letter: str, length: int, reference: str = "") -> None:
        end = self._at + length
        self._units.append(Unit(letter, self._at, end, self._quote, reference))
        self._at = end


def _end_of_computed(text: str, at: int) -> int:
    opening = text[at : at + 2]
    if text[at] == "`":
        end = re.compile(r"(?:\\.|[^`\\])*`", re.DOTALL).match(text, at + 1)
        return end.end() if end else len(text)
    if opening not in {"$(", "${"}:
        return at + (1 if opening[1:] in {"'", '"', "\\"} else 2)
    depth, pair = 0, {"$(": "()", "${": "{}"}[opening]
    place = at + 1
    while place < len(text):
        if whole := _QUOTED.match(text, place):
            place = whole.end()
            continue
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        place += 1
        if depth == 0:
            break
    return place


def apart(steps: str, *, needs_room: bool = False) -> str:
    """One statement, whose variables, functions and traps are its own."""
    body = "".join(f"    {line}\n" if line else "\n" for line in steps.splitlines())
    return f"(\n{_ROOM if needs_room else ''}{body})\n"


def synced(folders: Iterable[str]) -> str:
    """Empty where there is nothing. A FAT file system keeps no journal."""
    found = sorted(set(folders))
    return f"{shlex.join(('sync', *found))}\n" if found else ""
