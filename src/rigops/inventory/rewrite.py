"""An inventory in which hosts declare more, and what a person has to write there by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rigops import atomic_file, regular_file
from rigops.dataclass import dataclass
from rigops.errors import UsageError, rigops_error
from rigops.inventory.editing import edits, line_of
from rigops.inventory.load import Inventory, load
from rigops.inventory.merge import can_merge, merge
from rigops.inventory.spec import Key, RigSpec, examine
from rigops.inventory.userfile import MOST_BYTES

# Of each host its groups, what rigops reads, and the plain ones of the other keys.
Reading = dict[str, tuple[Sequence[str], "RigSpec", dict[str, object]]]


@dataclass(frozen=True)
class ByHand:
    """Keys whose place in the file is not certain. `line`: of the host."""

    host: str
    keys: Mapping[str, object]
    line: int


@dataclass(frozen=True)
class Rewrite:
    """`reading`: what `text` declares. Keys of hosts in `by_hand` are not in it."""

    path: Path
    before: bytes
    text: bytes
    reading: Reading
    by_hand: tuple[ByHand, ...]


def rewrite(
    inventory: Inventory, wanted: Mapping[str, Mapping[str, object]], keys: Mapping[str, Key[Any]]
) -> Rewrite:
    """`wanted`: keys by host, merged with what it declares already. Writes nothing."""
    before = text = regular_file.read(inventory.path, most=MOST_BYTES)
    reading = _reading(inventory, keys)
    by_hand: list[ByHand] = []
    for name, added in wanted.items():
        host = inventory.require(name)
        spec, problems = examine(merge(host.data, added), keys)
        groups, _, others = reading[name]
        expected = {**reading, name: (groups, spec, others)}
        is_certain = not problems and can_merge(host.data, added)
        tried = edits(text, name, added, host.data) if is_certain else ()
        found = next((one for one in tried if _read(inventory.path, one, keys) == expected), None)
        if found is None:
            by_hand.append(ByHand(name, added, line_of(text, name, host.groups)))
        else:
            text, reading = found, expected
    return Rewrite(inventory.path, before, text, reading, tuple(by_hand))


def write(wanted: Rewrite, keys: Mapping[str, Key[Any]]) -> None:
    """The old file comes back where the new one is read as anything else."""
    try:
        atomic_file.replace_own(wanted.path, wanted.text, was=wanted.before)
    except OSError as error:
        raise rigops_error(
            message=f"not written: {error.strerror}",
            file=str(wanted.path),
            fix="write the lines of the diff yourself, or make the file yours and run it again",
        ) from error
    if _read(wanted.path, None, keys) != wanted.reading:
        atomic_file.replace_own(wanted.path, wanted.before, was=wanted.text)
        raise rigops_error(
            message="declared something else once it was written, so the old file is back",
            file=str(wanted.path),
            fix="write the lines of the diff yourself",
        )


def _read(path: Path, text: bytes | None, keys: Mapping[str, Key[Any]]) -> Reading | None:
    try:
        return _reading(load(path, keys, text=text), keys)
    except UsageError:
        return None


def _reading(inventory: Inventory, keys: Mapping[str, Key[Any]]) -> Reading:
    return {
        host.name: (
            host.groups,
            host.spec,
            {key: _plain(value) for key, value in host.data.items() if key not in keys},
        )
        for host in inventory.hosts
    }


def _plain(value: object) -> object:
    """Two runs of a file make two objects of a class or function, which differ."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value if isinstance(value, (str, bytes, int, float)) or value is None else type(value)
