"""Records beside the snapshots of a subvolume, where a rollback of the root leaves them alone.

`pinned`: names that a person wants to stay, a line each. `parents`: the newest snapshot that a
target has too, a line each of the target and the name; known while the target is absent as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.backup.host.snapshot_names import parse_snapshot_name
from rigops.backup.host.state_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_pinned(folder: Path) -> frozenset[str]:
    return frozenset(_lines(folder / "pinned"))


def read_parents(folder: Path) -> dict[str, str]:
    """By target."""
    rows = (line.rpartition(" ") for line in _lines(folder / "parents"))
    return {target: name for target, _, name in rows if target and parse_snapshot_name(name)}


def write_parents(folder: Path, parents: Mapping[str, str]) -> None:
    if parents != read_parents(folder):
        rows = "".join(f"{target} {name}\n" for target, name in sorted(parents.items()))
        replace_file(folder / "parents", rows)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
