"""The dataclass decorator, without the time it takes to generate methods.

The one of the standard library compiles six methods for each class: for some 300 classes that was
a third of the start of a command. Here classes share all but `__init__`. A frozen class has a hash,
and type checkers refuse to assign to it; at run time nothing does.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
else:
    Class = TypeVar("Class", bound=type)

    def dataclass(
        cls: Class | None = None, /, *, frozen: bool = False, kw_only: bool = False
    ) -> Class | Callable[[Class], Class]:
        def decorate(cls: Class) -> Class:
            # Without a docstring the standard library makes one of the signature.
            cls.__doc__ = cls.__doc__ or cls.__name__
            dataclasses.dataclass(repr=False, eq=False, kw_only=kw_only)(cls)
            names = [field.name for field in dataclasses.fields(cls) if field.compare]
            cls.__compared__ = attrgetter("__class__", *names)
            cls.__repr__ = _repr
            cls.__eq__ = _is_equal
            cls.__hash__ = _hash if frozen else None
            return cls

        return decorate if cls is None else decorate(cls)

    def _repr(self: object) -> str:
        shown = (field.name for field in dataclasses.fields(self) if field.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({values})"

    def _is_equal(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self.__compared__(self) == self.__compared__(other)

    def _hash(self: object) -> int:
        return hash(self.__compared__(self))
