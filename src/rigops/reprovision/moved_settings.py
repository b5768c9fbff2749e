"""Declarations for a card by its UUID, for the card that is in its slot now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rigops.reprovision.compare import ReplacedGpu


def move_settings(
    data: Mapping[str, object], replaced: Iterable[ReplacedGpu]
) -> Mapping[str, object]:
    uuids = {one.before: one.after for one in replaced}
    return {key: _moved(value, uuids) for key, value in data.items()}


def lines_to_change(data: Mapping[str, object], replaced: Iterable[ReplacedGpu]) -> Iterator[str]:
    """Of the inventory, which rigops never edits."""
    for one in replaced:
        for key, value in data.items():
            if _moved(value, {one.before: one.after}) != value:
                yield f"{key}: write {one.after} for {one.before}"


def _moved(value: object, uuids: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return uuids.get(value, value)
    if isinstance(value, Mapping):
        return {_moved(key, uuids): _moved(one, uuids) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(one, uuids) for one in value)
    return value
