"""The fields of results of a host's backup programs. A field has one meaning everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    from typing import TypeGuard  # from Python 3.10 on in typing

MOST: Final = 1 << 63


class ProgramResult(TypedDict, total=False):
    """The known fields of a result, of a row in it and of what is joined of several."""

    aside: str | None
    archive: str | None
    at: str | None
    bytes: int | None
    created: list[ProgramResult]
    drill: ProgramResult | None
    engine: str | None
    error: str | None
    errors: list[ProgramResult]
    files: int | None
    fix: str | None
    healed: list[str]
    held: list[str]
    id: str | None
    is_running: bool
    is_wrong: bool
    key: str
    key_sha256: str | None
    kind: str | None
    message: str | None
    name: str | None
    older: ProgramResult | None
    parent: str | None
    path: str | None
    place: str | None
    proven: bool
    pruned: list[ProgramResult]
    restored: ProgramResult | None
    restored_to: str | None
    result: str | None
    rolled_back: ProgramResult | None
    sent: list[ProgramResult]
    snapshot: str | None
    state: str | None
    target: ProgramResult | None
    to_do: str | None
    to_heal: list[str]


def fits(found: object, needed: Iterable[str] = ()) -> TypeGuard[ProgramResult]:
    """Whether this is an object with these fields, whose known fields are of their kind."""
    return (
        isinstance(found, dict)
        and all(name in found for name in needed)
        and all(is_kind(found[name]) for name, is_kind in _KINDS.items() if name in found)
    )


def _is_text(found: object) -> bool:
    return found is None or isinstance(found, str)


def _is_bool(found: object) -> bool:
    return isinstance(found, bool)


def is_whole(found: object) -> TypeGuard[int]:
    """A count or a size."""
    return type(found) is int and 0 <= found < MOST


def _is_whole_or_none(found: object) -> bool:
    return found is None or is_whole(found)


def _are_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _rows(*needed: str) -> Callable[[object], bool]:
    return lambda found: isinstance(found, list) and all(fits(one, needed) for one in found)


def _object(*needed: str) -> Callable[[object], bool]:
    return lambda found: found is None or fits(found, needed)


_KINDS: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(
        ("aside", "archive", "at", "engine", "error", "fix", "id", "key_sha256", "kind", "message",
         "name", "parent", "path", "place", "result", "restored_to", "snapshot", "state",
         "to_do"), _is_text),
    **dict.fromkeys(("bytes", "files"), _is_whole_or_none),
    **dict.fromkeys(("healed", "held", "to_heal"), _are_texts),
    **dict.fromkeys(("created", "pruned", "sent"), _rows("name")),
    "errors": _rows("message", "fix"),
    "target": _object("name", "state"),
    "older": _object("archive"),
    **dict.fromkeys(("drill", "restored", "rolled_back"), _object()),
    **dict.fromkeys(("is_running", "is_wrong", "proven"), _is_bool),
}  # fmt: skip
