"""Which paths a backup elsewhere has, and which mounts and subvolumes none has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rigops.capture.block_devices import BOOT_FOLDERS, is_within
from rigops.capture.document import BackedUp
from rigops.concerns.borg.decide import local_path
from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.capture.subject import Subject
    from rigops.probe.mounts import Mount

_OF_THE_SYSTEM: Final = (
    "/run", "/proc", "/sys", "/dev", "/snap", "/var/lib/docker", "/var/lib/containers",
)  # fmt: skip
_NOT_DATA: Final = frozenset({"tmpfs", "squashfs", "overlay", "iso9660", "ramfs", "devtmpfs"})
_IDENTITY: Final = ("/etc", "/var/lib/rigops")  # in each archive of borg


@dataclass(frozen=True, kw_only=True)
class NotBackedUp:
    """`is_lost`: with the disk of the root, or it may be."""

    path: str
    is_lost: bool
    line: str


def backed_up(subject: Subject) -> tuple[BackedUp, ...]:
    found = []
    if (borg := subject.managed_borg) is not None:
        paths = dict.fromkeys((*borg.paths, *_IDENTITY))
        found += [BackedUp(path=one, engine="borg", place=borg.repository or "") for one in paths]
    if (sent := subject.sent_snapshots) is not None:
        found += [
            BackedUp(path=one, engine="btrfs", place=sent.send_to or "") for one in sent.subvolumes
        ]
    return tuple(found)


def not_backed_up(subject: Subject) -> tuple[NotBackedUp, ...]:
    return tuple({one.path: one for one in _not_backed_up(subject)}.values())


def _not_backed_up(subject: Subject) -> Iterator[NotBackedUp]:
    covered = backed_up(subject)
    by_borg = [one.path for one in covered if one.engine == "borg"]
    subvolumes = [one.path for one in covered if one.engine == "btrfs"]
    root = subject.blocks.of_root.disks
    for mount in _data_mounts(subject):
        path = mount.target
        if any(is_within(path, one) for one in by_borg) or path in subvolumes:
            continue
        if any(is_within(one, path) for one in (*by_borg, *subvolumes)):
            continue  # a part of it is
        disks = subject.blocks.of_mount(mount).disks
        is_lost = disks is None or root is None or bool(disks & root)
        yield NotBackedUp(path=path, is_lost=is_lost, line=mount.line)
    state = subject.snapshots_state
    for above, names in (state.nested if state else {}).items():
        for name in names:
            path = f"{above.rstrip('/')}/{name}"
            if path in subvolumes or any(is_within(path, one) for one in by_borg):
                continue
            over = subject.blocks.mount_of(path)
            disks = subject.blocks.of_mount(over).disks if over else None
            is_lost = disks is None or root is None or bool(disks & root)
            yield NotBackedUp(path=path, is_lost=is_lost, line=f"nested in {above}: {name}")


def _data_mounts(subject: Subject) -> Iterator[Mount]:
    """Neither of the system, nor the place of the backups."""
    sent, repository = subject.sent_snapshots, local_path(subject.repository)
    target = (sent.send_to or "").lower() if sent else ""
    for one in subject.blocks.mounts:
        if one.target == "/" or one.target in BOOT_FOLDERS or one.type in _NOT_DATA:
            continue
        if any(is_within(one.target, folder) for folder in _OF_THE_SYSTEM):
            continue
        if repository and subject.blocks.mount_of(repository) == one:
            continue
        uuids = {(device.uuid or "").lower() for device in subject.blocks.devices_of(one)}
        if target and target in uuids:
            continue
        yield one
