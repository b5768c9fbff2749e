"""Which entries of a folder are checkpoints of one training, and which of them are old. Pure.

In doubt an entry is none: what is not recognized is backed up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# A part of one checkpoint: a shard of how many, or what one process wrote.
_PART = re.compile(
    r"(?<![0-9])[0-9]+[-_.]?of[-_.]?[0-9]+|(?<![A-Za-z])rank[-_.]?[0-9]+", re.IGNORECASE
)
# `model-1` is not among them, and no number alone: those are parts and data just as often.
_PROGRESS = re.compile(
    r"(?:(?<![A-Za-z])|(?<=global))(?:checkpoint|ckpt|epoch|step|iteration|iter)[-_=.]?([0-9]+)",
    re.IGNORECASE,
)
_OF_PART, _OF_NUMBER = "\x00", "/"  # neither is in a name
# Images, logs and tables of a step are no checkpoint.
_FILE_END = re.compile(
    r"(?:.*\.(?:bin|ckpt|data-\x00|gguf|h5|hdf5|index|keras|meta|msgpack|nemo|pdopt|pdparams"
    r"|pt|pth|pth\.tar|safetensors))?",
    re.IGNORECASE | re.DOTALL,
)


class FolderEntry(NamedTuple):
    name: str
    is_folder: bool


class SeriesPlace(NamedTuple):
    """`series`: what all of one series share. `numbers`: as in the name: epoch 3, step 900."""

    series: str
    numbers: tuple[int, ...]


def find_series_place(entry: FolderEntry) -> SeriesPlace | None:
    """None: the entry is no checkpoint."""
    name = _PART.sub(_OF_PART, entry.name)
    found = list(_PROGRESS.finditer(name))
    if not found:
        return None
    end = name[found[-1].end() :]
    if end if entry.is_folder else not _FILE_END.fullmatch(end):
        return None
    series = _PROGRESS.sub(lambda one: f"{one[0][: -len(one[1])]}{_OF_NUMBER}", name)
    return SeriesPlace(series, tuple(int(one[1]) for one in found))


def older_checkpoints(entries: Iterable[FolderEntry], newest: int) -> list[tuple[str, ...]]:
    """Names in a folder, all parts of a checkpoint together; all but the newest of each series."""
    found: dict[tuple[str, bool], dict[tuple[int, ...], list[str]]] = {}
    for entry in entries:
        place = find_series_place(entry)
        if place:
            series = found.setdefault((place.series, entry.is_folder), {})
            series.setdefault(place.numbers, []).append(entry.name)
    return [
        tuple(sorted(series[numbers]))
        for series in found.values()
        for numbers in sorted(series)[: -max(newest, 1)]
    ]
