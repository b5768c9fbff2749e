"""Files of a root that are newer than a snapshot: they go aside with that root."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.subvolumes import subvolume_at
from rigops.hostside.shared.beneath import open_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from rigops.backup.host.snapshot_names import SnapshotName
    from rigops.concerns.snapshots.host.snapshot_documents import NewerFiles

_MOST = 12
_LEVELS = 2  # of folders
_OF_NO_WORTH = ("/var/log/", "/var/cache/", "/var/tmp/", "/tmp/", "/run/")  # noqa: S108 - only named
_EXTENT = re.compile(
    r"inode [0-9]+ file offset [0-9]+ len [0-9]+ disk start [0-9]+ offset [0-9]+ gen [0-9]+ "
    r"flags \S+ (?P<path>.+)"
)


def find_newer(root: str, snapshot: str, name: SnapshotName) -> NewerFiles:
    """Files whose data was written since; what was removed since is not seen."""
    with open_folder(snapshot) as then, open_folder(root) as now:
        before, present = subvolume_at(then), subvolume_at(now)
    since = before.generation if before else 0
    if name.kind == "rollback" and present:  # it was written to after the present root was made
        since = min(since, present.made_in)
    said = run_tool(root, ["btrfs", "subvolume", "find-new", root, str(since + 1)])
    return summarize(parse_find_new(said))


def parse_find_new(text: str) -> set[str]:
    """Paths of files, a line each of their parts."""
    rows = map(_EXTENT.fullmatch, text.splitlines())
    paths = {f"/{row['path']}" for row in rows if row}
    return {one for one in paths if not one.startswith(_OF_NO_WORTH)}


def summarize(paths: Collection[str]) -> NewerFiles:
    """The examples are from every folder that is named."""
    by_folder: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_folder.setdefault(_folder_with(path), []).append(path)
    sizes = Counter({folder: len(found) for folder, found in by_folder.items()})
    most = sizes.most_common(_MOST)
    turns = [(turn, path) for folder, _ in most for turn, path in enumerate(by_folder[folder])]
    examples = [path for _, path in sorted(turns, key=lambda one: one[0])]
    return {
        "files": len(paths),
        "folders": [{"path": folder, "files": files} for folder, files in most],
        "examples": examples[:_MOST],
    }


def _folder_with(path: str) -> str:
    return "/" + "/".join(path.split("/")[1:-1][:_LEVELS])
