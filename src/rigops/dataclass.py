"""The dataclass decorator, without the time it takes to generate methods.

The one of the standard library compiles six methods for each class: for some 400 classes that was
a third of the start of a command. Here classes share all but `__init__`, which is made for the
first instance: a command has instances of half of them, a paste of a fifth. A frozen class has a
hash, and type checkers refuse to assign to it; at run time nothing does.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported

    def make_classes(*packages: str) -> None: ...

else:
    Class = TypeVar("Class", bound=type)

    _FIELDS = "__dataclass_fields__"
    _MAKING = RLock()
    _UNMADE: dict[_Fields, None] = {}

    def dataclass(
        cls: Class | None = None, /, *, frozen: bool = False, kw_only: bool = False
    ) -> Class | Callable[[Class], Class]:
        def decorate(cls: Class) -> Class:
            fields = _Fields(cls, kw_only=kw_only)

            def first_init(self: object, *values: object, **named: object) -> None:
                fields.make()
                cls.__init__(self, *values, **named)

            # Without a docstring the standard library makes one of the signature.
            cls.__doc__ = cls.__doc__ or cls.__name__
            cls.__init__ = first_init
            cls.__repr__ = _repr
            cls.__eq__ = _is_equal
            cls.__hash__ = _hash if frozen else None
            setattr(cls, _FIELDS, fields)
            _UNMADE[fields] = None
            return cls

        return decorate if cls is None else decorate(cls)

    def make_classes(*packages: str) -> None:
        """Those of these packages are made now, and no first instance has to wait for it."""
        for fields in [*_UNMADE]:
            if fields.cls.__module__.startswith(packages):
                fields.make()

    class _Fields:
        """Stands where the fields of a class will be."""

        def __init__(self, cls: type, *, kw_only: bool) -> None:
            self.cls, self._kw_only = cls, kw_only

        def __get__(self, _: object, owner: type) -> dict[str, dataclasses.Field]:
            self.make()
            return getattr(owner, _FIELDS)

        def make(self) -> None:
            """By a twin: a thread that makes an instance meanwhile finds all of it or nothing."""
            cls = self.cls
            with _MAKING:
                if self not in _UNMADE:
                    return
                lacking = {"__dict__", "__weakref__", "__init__", _FIELDS}
                own = {name: value for name, value in vars(cls).items() if name not in lacking}
                twin = type(cls)(cls.__name__, cls.__bases__, own)
                dataclasses.dataclass(repr=False, eq=False, kw_only=self._kw_only)(twin)
                fields = dataclasses.fields(twin)
                for name, value in own.items():
                    if isinstance(value, dataclasses.Field):
                        delattr(cls, name)
                        if name in vars(twin):
                            setattr(cls, name, vars(twin)[name])
                names = [field.name for field in fields if field.compare]
                cls.__compared__ = attrgetter("__class__", *names)
                for name in ("__match_args__", "__dataclass_params__", "__init__", _FIELDS):
                    setattr(cls, name, vars(twin)[name])
                del _UNMADE[self]

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
