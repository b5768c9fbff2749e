"""Dataclasses as JSON documents and back, by the types of their fields.

A field that JSON names otherwise says so in its metadata. A value that has to be more than its type
says is `Annotated[…, reader]`, where the reader takes the object and the name of the field.
"""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rigops import json_fields
from rigops.json_fields import Fields

Class = TypeVar("Class")

NAME: Final = "json"  # in a field's metadata: its name in JSON, where Python has that word itself
Time = Annotated[str, Fields.time]  # RFC 3339, UTC

_WORDS: Final[dict[Any, str]] = {str: "text", bool: "true or false", int: "a whole number"}


def document(schema: str, value: object, *, indent: int | None = 2) -> str:
    """The schema first, then the fields in their order."""
    return json.dumps({"schema": schema, **to_json(value)}, indent=indent) + "\n"


def parse(
    cls: type[Class],
    text: str,
    *,
    schema: str,
    place: str,
    fix: str = "",
    required: Collection[str] = (),
) -> Class:
    """RigopsError names `place` and the field, and gives `fix`.

    `required`: what every document has, although the class has a default.
    """
    given = json_fields.parse(text, place=place, fix=fix)
    given.require_schema(schema)
    for name in required:
        if name not in given.names:
            raise given.wrong(name, None, "given")
    return from_json(cls, given)


def to_json(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    if is_dataclass(value):
        return {
            one.metadata.get(NAME, one.name): to_json(getattr(value, one.name))
            for one in fields(value)
        }
    if isinstance(value, (tuple, list)):
        return [to_json(one) for one in value]
    if isinstance(value, Mapping):
        return {key: to_json(one) for key, one in value.items()}
    return value


def from_json(cls: type[Class], given: Fields) -> Class:
    """Unknown fields are ignored; absent ones are as the class has them by default."""
    hints = _hints(cls)  # type: ignore[arg-type]  # a dataclass, which its caller knows
    found = {}
    for one in fields(cls):  # type: ignore[arg-type]  # a dataclass, which its caller knows
        name = one.metadata.get(NAME, one.name)
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if not has_default or given.raw(name) is not None:
            found[one.name] = _read(hints[one.name], given, name)
    return cls(**found)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _read(hint: Any, given: Fields, name: str) -> Any:  # noqa: ANN401 - of any type that a document has
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return inner[1](given, name)
    if origin in {Union, types.UnionType}:
        (present,) = (one for one in inner if one is not type(None))
        return None if given.raw(name) is None else _read(present, given, name)
    if is_dataclass(hint):
        return from_json(hint, given.nested(name))  # type: ignore[arg-type]  # a dataclass, which its caller knows
    if origin is tuple:
        return _tuple(inner[0], given, name)
    if origin is Mapping:
        return _mapping(inner[1], given, name)
    return given.number(name) if hint is float else _scalar(hint, given, name)


def _tuple(inner: Any, given: Fields, name: str) -> tuple[Any, ...]:  # noqa: ANN401 - of any type that a document has
    if inner is str:
        return given.texts(name)
    return tuple(from_json(inner, one) for one in given.each(name))


def _mapping(inner: Any, given: Fields, name: str) -> dict[str, Any]:  # noqa: ANN401 - of any type that a document has
    if inner is object:
        return given.object(name)
    if inner is str:
        return given.text_map(name)
    values = given.nested(name)
    return {key: _read(inner, values, key) for key in values.names}


def _scalar(hint: Any, given: Fields, name: str) -> object:  # noqa: ANN401 - of any type that a document has
    value, accepted = given.raw(name), get_args(hint)
    if value in accepted if accepted else type(value) is hint:
        return value
    raise given.wrong(name, value, " or ".join(map(repr, accepted)) or _WORDS[hint])
