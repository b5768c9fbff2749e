"""The declaration of this machine: the file that `rigops apply` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.retention import parse_rule

if TYPE_CHECKING:
    from rigops.backup.retention import Rule

SETTINGS = "/etc/rigops/snapshots.json"


class SnapshotSettings(NamedTuple):
    """`host`: its name in the inventory, for disks that several hosts send to.

    `keep`: empty keeps everything. `send_to`: a UUID, user@host:path, or empty.
    """

    host: str
    subvolumes: tuple[str, ...]
    keep: str = ""
    send_to: str = ""

    @property
    def rule(self) -> Rule | None:
        try:
            return parse_rule(self.keep) if self.keep else None
        except ValueError as error:
            raise HostError(f"{SETTINGS}: keep: {error}", "run rigops apply") from error


def read_snapshot_settings(path: str = SETTINGS) -> SnapshotSettings | None:
    """None where nothing is declared."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return SnapshotSettings(
            host=str(found["host"]),
            subvolumes=tuple(map(str, found["subvolumes"])),
            keep=str(found.get("keep", "")),
            send_to=str(found.get("send_to", "")),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{path} cannot be read: {error}", "run rigops apply") from error
