"""The backups lie on another disk than the root, and what lies in no backup is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rigops.capture.coverage import backed_up, not_backed_up
from rigops.capture.document import Requirement
from rigops.concerns.borg.decide import local_path
from rigops.doctor.finding import Evidence
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.storage import SECTION as STORAGE

if TYPE_CHECKING:
    from rigops.capture.block_devices import Placed
    from rigops.capture.subject import Subject

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOOPBACK: Final = re.compile(r"localhost|127\.[0-9.]+|::1")


def judge_disks(subject: Subject) -> list[Requirement]:
    """Where backups are on a disk of the host, it is not the one that the root is on."""
    return list(_judge_disks(subject))


def _judge_disks(subject: Subject) -> Iterator[Requirement]:
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
        return Requirement(
            id="backup.disk",
            status="fail",
            summary=f"{path} is on the file system of the root: a wipe takes it too",
            subject=path,
            evidence=(Evidence(STORAGE.name, mount.line),),
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
        return Requirement(
            id="backup.disk", status="ok", summary=text, subject=place, evidence=evidence
        )
    shared = placed.disks & (root.disks or frozenset())
    if shared:
        names = ", ".join(sorted(shared))
        return Requirement(
            id="backup.disk",
            status="fail",
            summary=f"{place} is on {names}, which has the root: a wipe takes it too",
            subject=place,
            evidence=evidence,
            fix=fix,
        )
    mine, others = ", ".join(sorted(placed.disks)), ", ".join(sorted(root.disks or ()))
    return Requirement(
        id="backup.disk",
        status="ok",
        summary=f"{place} is on {mine}, the root on {others}",
        subject=place,
        evidence=evidence,
    )


def _of_server(subject: Subject, place: str) -> Requirement:
    """One that is the host itself under another name is not found out."""
    name = _host_of(place)
    identity = subject.snapshot[IDENTITY].or_empty
    own = {identity.system.get("hostname"), subject.host}
    own |= {one.partition("/")[0] for net in identity.connections or () for one in net.addresses}
    if name and (name in own or _LOOPBACK.fullmatch(name)):
        return Requirement(
            id="backup.disk",
            status="fail",
            summary=f"{place} is on this host itself",
            subject=place,
            fix="declare another server, or the path of a disk that stays",
        )
    return Requirement(
        id="backup.disk", status="ok", summary=f"{place} is on a server", subject=place
    )


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
