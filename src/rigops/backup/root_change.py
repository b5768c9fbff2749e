"""Changes by a rollback of the root, as reported by the host's program. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from rigops.backup.btrfs_lines import unreadable
from rigops.backup.utc import parse_utc
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.json_fields import Fields


@dataclass(frozen=True, kw_only=True)
class NewerFiles:
    """In the present root, compared with the snapshot. `folders`: how many by folder."""

    files: int
    folders: tuple[tuple[str, int], ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RootChange:
    """`aside`: where the present root stays, from the top level of its file system.

    `nested`: subvolumes inside the root, which move over. `kernel`: that will boot.
    """

    snapshot: str
    at: datetime
    root: str
    aside: str
    kernel: str
    nested: tuple[str, ...]
    newer: NewerFiles
    notices: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        folders = [{"path": path, "files": files} for path, files in self.newer.folders]
        newer = {**asdict(self.newer), "folders": folders}
        return {**asdict(self), "at": f"{self.at:%Y-%m-%dT%H:%M:%SZ}", "newer": newer}


def read_root_change(host: str, document: Mapping[str, object]) -> RootChange:
    try:
        return _root_change(host, document)
    except (RigopsError, ValueError, OverflowError) as error:
        raise unreadable(host) from error


def _root_change(host: str, document: Mapping[str, object]) -> RootChange:
    found = Fields(document, place=f"{host}: rollback").nested("rollback")
    newer = found.nested("newer")
    return RootChange(
        snapshot=found.text("snapshot"),
        at=parse_utc(found.time("at")),
        root=found.text("root"),
        aside=found.text("aside"),
        kernel=found.text("kernel"),
        nested=found.texts("nested"),
        newer=NewerFiles(
            files=int(newer.number("files")),
            folders=tuple(
                (one.text("path"), int(one.number("files"))) for one in newer.each("folders")
            ),
            examples=newer.texts("examples"),
        ),
        notices=found.texts("notices"),
    )
