"""Where backups lie, which paths they have, and which mounts and subvolumes none has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from rigops.capture.block_devices import BOOT_FOLDERS, Placed
from rigops.capture.document import BackedUp, Requirement
from rigops.capture.requirements.outcomes import failed, ok
from rigops.capture.subject import Subject
from rigops.concerns.borg.decide import local_path
from rigops.dataclass import dataclass
from rigops.doctor.finding import Evidence
from rigops.probe.mounts import Mount, is_within
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.storage import SECTION as STORAGE

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOOPBACK: Final = re.compile(r"localhost|127\.[0-9.]+|::1")

_OF_THE_SYSTEM: Final = (
    "/run", "/proc", "/sys", "/dev", "/snap", "/var/lib/docker", "/var/lib/containers",
)  # fmt: skip
_NOT_DATA: Final = frozenset({"tmpfs", "squashfs", "overlay", "iso9660", "ramfs", "devtmpfs"})
_IDENTITY: Final = ("/etc", "/var/lib/rigops")  # in each archive of borg


def judge_disks(subject: Subject) -> Iterator[Requirement]:
    """Where backups are on a disk of the host, it is not the one that the root is on."""
    if place := subject.repository:
        path = local_path(place)
        yield _of_path(subject, path) if path else _of_server(subject, place)
    if (sent := subject.sent_snapshots) is not None:
        place = sent.send_to or ""
        if _UUID.fullmatch(place):
            fix = "send to another disk or a server, then rigops apply and backup"
            yield _compared(subject, place, subject.blocks.of_file_system(place), fix)
        else:
            yield _of_server(subject, place)


def _of_path(subject: Subject, path: str) -> Requirement:
    blocks = subject.blocks
    mount, root = blocks.mount_of(path), blocks.mount_of("/")
    fix = "declare a repository on another disk or a server, then rigops apply and backup"
    state = subject.borg_state
    is_absent = subject.controller.passphrase.is_absent or (
        state is not None and state.repository.state == "absent"
    )
    if is_absent and mount == root:
        return _unknown(path, f"{path} is absent; its disk is not mounted", "mount it")
    if mount is not None and mount == root:
        return failed(
            "backup.disk",
            f"{path} is on the file system of the root: a wipe takes it too",
            (Evidence(STORAGE.name, mount.line),),
            subject=path,
            fix=fix,
        )
    if mount is None:
        return _unknown(path, "the mounts of the host were not collected", "capture it again")
    return _compared(subject, path, blocks.of_mount(mount), fix)


def _compared(subject: Subject, place: str, placed: Placed, fix: str) -> Requirement:
    root = subject.blocks.of_root
    evidence = tuple(
        Evidence(section, line)
        for section, line in ((STORAGE.name, placed.line), (STORAGE.name, root.line))
        if line
    )
    if placed.disks is None or (placed.disks and root.disks is None):
        what = place if placed.disks is None else "the root"
        return _unknown(
            place, f"which disk {what} is on is unknown", "see `lsblk` and `findmnt` on the host"
        )
    if not placed.disks:
        text = f"{place} is on no disk that is attached now"
        return ok("backup.disk", text, evidence, subject=place)
    shared = placed.disks & (root.disks or frozenset())
    if shared:
        names = ", ".join(sorted(shared))
        return failed(
            "backup.disk",
            f"{place} is on {names}, which has the root: a wipe takes it too",
            evidence,
            subject=place,
            fix=fix,
        )
    mine, others = ", ".join(sorted(placed.disks)), ", ".join(sorted(root.disks or ()))
    return ok("backup.disk", f"{place} is on {mine}, the root on {others}", evidence, subject=place)


def _of_server(subject: Subject, place: str) -> Requirement:
    """One that is the host itself under another name is not found out."""
    name = _host_of(place)
    identity = subject.snapshot[IDENTITY].or_empty
    own = {identity.system.get("hostname"), subject.host}
    own |= {one.partition("/")[0] for net in identity.connections or () for one in net.addresses}
    if name and (name in own or _LOOPBACK.fullmatch(name)):
        return failed(
            "backup.disk",
            f"{place} is on this host itself",
            subject=place,
            fix="declare another server, or the path of a disk that stays",
        )
    return ok("backup.disk", f"{place} is on a server", subject=place)


def _host_of(place: str) -> str | None:
    if "://" in place:
        return urlsplit(place).hostname
    return place.partition(":")[0].split("@")[-1]


def judge_coverage(subject: Subject) -> list[Requirement]:
    """Data without a backup; on the disk of the root it is lost with it."""
    if subject.snapshot[STORAGE].or_empty.mounts is None:
        return [
            Requirement(
                id="coverage",
                status="unknown",
                summary="the mounts of the host were not collected",
                evidence=(Evidence(STORAGE.name, "not collected"),),
                fix="capture it again",
            )
        ]
    every = not_backed_up(subject)
    lost = [one for one in every if one.is_lost]
    summary, fix = _lost_with_the_root(subject)
    others = [one for one in every if not one.is_lost]
    found = [
        Requirement(
            id="coverage",
            status="warn",
            summary=summary,
            subject=one.path,
            evidence=(Evidence(STORAGE.name, one.line),),
            fix=fix,
        )
        for one in lost
    ]
    found += [
        Requirement(
            id="coverage",
            status="info",
            summary="in no backup; it is on another disk, which has to stay",
            subject=one.path,
            evidence=(Evidence(STORAGE.name, one.line),),
        )
        for one in others
    ]
    paths = ", ".join(dict.fromkeys(one.path for one in backed_up(subject)))
    if paths:
        text = f"backed up: {paths}. Of the root nothing else is"
        found.append(Requirement(id="coverage", status="info", summary=text))
    return found


def _lost_with_the_root(subject: Subject) -> tuple[str, str]:
    if (watched := subject.watched_borg) is not None:
        return (
            f"on the disk of the root: see that {watched.unit} backs it up, or it is lost",
            "restore a file in it with its tool, elsewhere",
        )
    return (
        "on the disk of the root and in no backup: it is lost",
        "add it to the paths of borg, or copy it away",
    )


def _unknown(place: str, summary: str, fix: str) -> Requirement:
    return Requirement(
        id="backup.disk",
        status="unknown",
        summary=summary,
        subject=place,
        evidence=(Evidence(STORAGE.name, summary),),
        fix=fix,
    )


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
