"""One key of an inventory: what it takes, and how its value is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Key(Generic[T_co]):
    """`parse` raises RefusedError. `also_written`: what people write for it."""

    name: str
    accepted: str
    parse: Callable[[object], T_co]
    also_written: tuple[str, ...] = ()


def words(*accepted: str) -> str:
    return ", ".join(f'"{word}"' for word in accepted)
