"""Dataclasses as JSON and back, by the types of their fields."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from rigops.json_fields import Fields

Class = TypeVar("Class")

NAME: Final = "json"  # in a field's metadata: its name in JSON, where Python has that word itself

_WORDS: Final[dict[Any, str]] = {str: "text", bool: "true or false", int: "a whole number"}


def to_json(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    if is_dataclass(value):
        return {
            one.metadata.get(NAME, one.name): to_json(getattr(value, one.name))
            for one in fields(value)
        }
    if isinstance(value, (tuple, list)):
        return [to_json(one) for one in value]
    return value


def from_json(cls: type[Class], given: Fields) -> Class:
    """Unknown fields are ignored; absent ones are as the class has them by default."""
    hints = _hints(cls)  # type: ignore[arg-type]  # a dataclass, which its caller knows
    found = {}
    for one in fields(cls):  # type: ignore[arg-type]  # a dataclass, which its caller knows
        name = one.metadata.get(NAME, one.name)
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if name in given.names or not has_default:
            found[one.name] = _read(hints[one.name], given, name, given.raw(name))
    return cls(**found)


_hints = cache(get_type_hints)


def _read(hint: Any, given: Fields, name: str, value: object) -> Any:  # noqa: ANN401 - of any type that a document has
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        (inner,) = (one for one in get_args(hint) if one is not type(None))
        return None if value is None else _read(inner, given, name, value)
    if origin is tuple:
        return _read_tuple(get_args(hint)[0], given, name)
    if is_dataclass(hint):
        return from_json(hint, given.nested(name))  # type: ignore[arg-type]  # a dataclass, which its caller knows
    if hint is float:
        return given.number(name)
    accepted = get_args(hint) if origin is Literal else ()
    if accepted and value in accepted:
        return value
    if accepted or type(value) is not hint:
        words = " or ".join(map(repr, accepted)) if accepted else _WORDS[hint]
        raise given.wrong(name, value, words)
    return value


def _read_tuple(inner: Any, given: Fields, name: str) -> tuple[Any, ...]:  # noqa: ANN401 - of any type that a document has
    if is_dataclass(inner):
        return tuple(from_json(inner, one) for one in given.each(name))  # type: ignore[arg-type]  # a dataclass, which its caller knows
    return given.texts(name)
