"""Where snapshots are sent: another disk by its UUID, or a server. It may be absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.volumes import find_disk, open_volume
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.remote import RemotePlace, UnreachableError

if TYPE_CHECKING:
    from rigops.backup.host.snapshot_settings import SnapshotSettings

SENT = "rigops"  # below the top level of a disk that hosts send to


class Target(NamedTuple):
    """`state`: present, absent, unreachable or failed. `place`: only where it is present."""

    name: str
    state: str
    place: LocalPlace | RemotePlace | None = None
    error: HostError | None = None
    free_bytes: int | None = None


def open_target(settings: SnapshotSettings) -> Target | None:
    name = settings.send_to
    if not name:
        return None
    try:
        place = RemotePlace(name) if ":" in name else _open_disk(name, settings.host)
        if place is None:
            return Target(name, "absent")
        return Target(name, "present", place, free_bytes=place.room()[0])
    except UnreachableError as error:
        return Target(name, "unreachable", error=error)
    except HostError as error:
        return Target(name, "failed", error=error)


def _open_disk(uuid: str, host: str) -> LocalPlace | None:
    device = find_disk(uuid)
    if device is None:
        return None
    words = ["blkid", "-p", "-o", "value", "-s", "TYPE", device]
    kind = run_tool(device, words).strip()
    if kind != "btrfs":
        raise HostError(
            f"send_to: {uuid} ({device}) is {kind or 'no file system'}, not btrfs",
            "declare the UUID of a btrfs (`blkid`)",
        )
    return LocalPlace(uuid, open_volume(device, uuid), f"{SENT}/{host}", receives=True)
