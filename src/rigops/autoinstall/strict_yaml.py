"""Reads the YAML that rigops renders, and no other: blocks, JSON scalars, and literal texts.

What a reader of YAML would guess at (a value without quotes, a key twice, a tab) is an error here.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from rigops.errors import Problem, RigopsError

_STEP: Final = 2
_ENTRY = re.compile(r"(?P<key>[a-z_][a-z0-9_-]*|\"(?:[^\"\\]|\\.)*\"):(?: (?P<value>.+))?")
_ITEM: Final = "- "
_LITERAL: Final = "|"


def parse(text: str) -> dict[str, object]:
    """RigopsError where it is not of this kind."""
    reader = _Reader(text)
    found = reader.block(0)
    if reader.number < len(reader.lines):
        reader.fail("a line that belongs to nothing")
    if not isinstance(found, dict):
        reader.fail("no mapping at the top")
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.number = 0
        while self.number < len(self.lines) and self.lines[self.number].startswith("#"):
            self.number += 1

    def fail(self, what: str) -> NoReturn:
        line = self.lines[self.number] if self.number < len(self.lines) else "the end"
        message = f"line {self.number + 1}: {what}: {line.strip()[:60]}"
        raise RigopsError(Problem(message=message, line=self.number + 1))

    def block(self, indent: int) -> object:
        if self._text(indent).startswith(_ITEM):
            return self._list(indent)
        return self._mapping(indent)

    def _text(self, indent: int) -> str:
        """The present line without its indentation; empty where it is less indented."""
        if self.number >= len(self.lines):
            return ""
        line = self.lines[self.number]
        has = len(line) - len(line.lstrip(" "))
        if has > indent or not line.strip() or "\t" in line:
            self.fail("not the indentation of its neighbors")
        return line[indent:] if has == indent else ""

    def _list(self, indent: int) -> list[object]:
        found: list[object] = []
        while (text := self._text(indent)).startswith(_ITEM):
            rest = text[len(_ITEM) :]
            if _ENTRY.fullmatch(rest):
                self.lines[self.number] = " " * (indent + _STEP) + rest
                found.append(self._mapping(indent + _STEP))
            else:
                found.append(self._scalar(rest, indent))
        if text:
            self.fail("no item of the list")
        return found

    def _mapping(self, indent: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while text := self._text(indent):
            entry = _ENTRY.fullmatch(text)
            if entry is None:
                self.fail("no key with a value")
            key = json.loads(entry["key"]) if entry["key"].startswith('"') else entry["key"]
            if key in found:
                self.fail("a key for the second time")
            if entry["value"] is None:
                self.number += 1
                if self.number >= len(self.lines):
                    self.fail("a key without a value")
                found[key] = self.block(indent + _STEP)
                if not found[key]:
                    self.fail("a key without a value")
            else:
                found[key] = self._scalar(entry["value"], indent)
        if not found:
            self.fail("nothing")
        return found

    def _scalar(self, text: str, indent: int) -> object:
        if text == _LITERAL:
            return self._literal(indent + _STEP)
        try:
            value: object = json.loads(text)
        except ValueError:
            self.fail("a value without quotes")
        if value is None or isinstance(value, (float, dict)):
            self.fail("a value of another kind")
        self.number += 1
        return value

    def _literal(self, indent: int) -> str:
        self.number += 1
        found = []
        while self.number < len(self.lines):
            line = self.lines[self.number]
            if line.strip() and not line.startswith(" " * indent):
                break
            found.append(line[indent:])
            self.number += 1
        if not found or not found[0] or found[0].startswith(" "):
            self.fail("a text that is empty or has no clear indentation")
        return "\n".join(found).rstrip("\n") + "\n"
