"""What a declaration becomes by keys that are added to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def collect(declarations: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """All of them; of two that contradict each other, the first."""
    collected: dict[str, object] = {}
    for keys in declarations:
        if _agree(collected, keys):
            collected = merge(collected, keys)
    return collected


def merge(had: Mapping[str, object], added: Mapping[str, object]) -> dict[str, object]:
    """Lists and dicts grow; of other values the added one counts."""
    grown = {key: _merged(had[key], one) if key in had else one for key, one in added.items()}
    return {**had, **grown}


def lacking(had: Mapping[str, object], added: Mapping[str, object]) -> dict[str, object]:
    """The keys that `had` lacks of these, as they are merged."""
    merged = merge(had, added)
    return {key: merged[key] for key in added if key not in had or _listed(had[key]) != merged[key]}


def can_merge(had: Mapping[str, object], added: Mapping[str, object]) -> bool:
    """Not so are a value for all GPUs, and a dict of values by GPU."""
    return not any(
        isinstance(had.get(key, one), Mapping) ^ isinstance(one, Mapping)
        for key, one in added.items()
    )


def _merged(had: object, added: object) -> object:
    if isinstance(had, Mapping) and isinstance(added, Mapping):
        return merge(had, added)
    if isinstance(had, (list, tuple)) and isinstance(added, (list, tuple)):
        return [*had, *(one for one in added if one not in had)]
    return added


def _agree(one: object, other: object) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_agree(one[key], other[key]) for key in one.keys() & other.keys())
    return one == other or (isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)))


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
