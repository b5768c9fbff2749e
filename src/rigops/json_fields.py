"""Typed fields out of parsed JSON. A wrong field is an error; unknown fields are ignored."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from rigops.errors import Problem, RigopsError

_MOST: Final = sys.float_info.max
_UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|\+00:00)", re.ASCII)


T = TypeVar("T")


def readable(parse: Callable[[str], T], text: str | None) -> T | None:
    """None also for a record that cannot be read: it counts as none."""
    try:
        return parse(text) if text is not None else None
    except RigopsError:
        return None


class NewerError(RigopsError):
    """The document was written by a newer rigops: it is no damaged one."""


class Fields:
    """One JSON object. Errors name `place` and give `fix`."""

    def __init__(self, value: object, *, place: str, fix: str = "") -> None:
        self._place = place
        self._fix = fix
        if not isinstance(value, dict):
            raise self.wrong("", value, "an object")
        self._values = value

    def wrong(self, name: str, value: object, accepted: str) -> RigopsError:
        where = f"{self._place}: {name}" if name else self._place
        return RigopsError(
            Problem(
                message=f"{where} is {_short(value)}, expected {accepted}",
                accepted=accepted,
                fix=self._fix,
                key=name or None,
                value=_short(value),
            ),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self._values))

    def raw(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str) -> str:
        value = self.raw(name)
        if not isinstance(value, str):
            raise self.wrong(name, value, "text")
        return value

    def time(self, name: str) -> str:
        value = self.text(name)
        if not _UTC_TIME.fullmatch(value):
            raise self.wrong(name, value, "a time such as 2026-01-31T18:00:00Z")
        return value

    def number(self, name: str) -> float:
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(name, value, "a number")
        if not -_MOST <= value <= _MOST:  # neither is nan
            raise self.wrong(name, value, "a finite number")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, value, "a list of texts")
        return tuple(value)

    def text_map(self, name: str) -> dict[str, str]:
        value = self.raw(name)
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise self.wrong(name, value, "an object of texts")
        return value

    def object(self, name: str) -> dict[str, object]:
        value = self.raw(name)
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return value

    def nested(self, name: str) -> Fields:
        return Fields(self.raw(name), place=f"{self._place}: {name}", fix=self._fix)

    def nested_or_none(self, name: str) -> Fields | None:
        return None if self.raw(name) is None else self.nested(name)

    def each(self, name: str) -> tuple[Fields, ...]:
        value = self.raw(name)
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list of objects")
        return tuple(
            Fields(item, place=f"{self._place}: {name}[{index}]", fix=self._fix)
            for index, item in enumerate(value)
        )

    def require_schema(self, schema: str) -> None:
        found = self.raw("schema")
        if found == schema:
            return
        family, _, version = schema.rpartition("/")
        newer = re.fullmatch(re.escape(family) + r"/([0-9]{1,9})", str(found))
        if newer and int(newer[1]) > int(version):
            raise NewerError(
                Problem(
                    message=f"{self._place} was written by a newer rigops ({found})",
                    accepted=schema,
                    fix="upgrade rigops on this machine",
                    key="schema",
                    value=str(found),
                ),
            )
        raise self.wrong("schema", found, schema)


def parse(text: str, *, place: str, fix: str = "") -> Fields:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RigopsError(
            Problem(message=f"{place} is damaged or incomplete: {error}", fix=fix),
        ) from error
    return Fields(value, place=place, fix=fix)


def _short(value: object) -> str:
    longest = 80
    text = "absent" if value is None else ascii(value)
    return text if len(text) <= longest else text[:longest] + "…"
