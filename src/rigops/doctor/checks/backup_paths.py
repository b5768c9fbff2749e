"""Whether what is declared for snapshots and backups is on the file system that it was on."""

from __future__ import annotations

import posixpath

from rigops.backup.file_systems import FILE_SYSTEMS_FILE, FileSystem, NotedPath, parse_noted
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.inventory.spec import RigSpec
from rigops.probe.mounts import Mount, mount_over
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.storage import SECTION as STORAGE
from rigops.probe.sections.storage import Storage, is_collected


@Check(
    "backup.paths",
    needs=(RIGOPS_STATE, STORAGE),
    needs_gpu=False,
    fixes=("hands",),
    keys=frozenset({"snapshots", "borg"}),
)
def paths(examined: Examined) -> Finding | list[Finding]:
    """Each path that is declared for snapshots or borg is on the file system of its last backup.

    Compares the record of the last backup with /proc/self/mounts and the UUIDs that blkid reads. A
    disk that is not mounted, or another one in its place, is a failure: no backup reads it, and
    nothing is pruned. It is unknown where UUIDs were not collected, which needs root, and for kinds
    of file systems whose mounts the probe does not collect.
    """
    declared = _declared(examined.spec)
    if not declared:
        return Finding("skipped", "neither snapshots nor backups by rigops are declared")
    state, storage = examined.snapshot[RIGOPS_STATE], examined.snapshot[STORAGE]
    if state.value is None or not (state.is_complete and state.value.are_files_known):
        return Finding("unknown", "the records of rigops were not collected whole")
    if storage.value is None or storage.value.mounts is None or not storage.is_complete:
        return Finding("unknown", "mounts were not collected whole")
    text = state.value.records.get(FILE_SYSTEMS_FILE)
    noted = {} if text is None else parse_noted(text)
    if noted is None:
        return Finding("unknown", f"{FILE_SYSTEMS_FILE} cannot be read")
    found = [_judge(path, noted[path], storage.value) for path in declared if path in noted]
    return found or Finding("info", "no backup has noted yet which file systems the paths are on")


def _declared(spec: RigSpec) -> list[str]:
    snapshots = spec.snapshots.subvolumes if spec.snapshots else ()
    backups = spec.borg.paths if spec.borg and spec.borg.repository else ()
    return sorted({posixpath.normpath(path) for path in (*snapshots, *backups)})


def _judge(path: str, noted: NotedPath, storage: Storage) -> Finding:
    before = noted.file_system
    mount = mount_over(noted.place, storage.mounts or ())
    if mount is None:
        return Finding("unknown", "the mount that it is on was not collected", subject=path)
    now = _file_system(mount, storage)
    evidence = (
        Evidence(RIGOPS_STATE.name, before.uuid or before.source),
        Evidence(STORAGE.name, mount.line),
    )
    if now.kind == "autofs":
        return Finding("info", "its automount is idle; a backup mounts it", evidence, subject=path)
    if before.uuid and not now.uuid and before.kind == now.kind:
        return Finding("unknown", "its UUID was not collected", evidence, subject=path)
    if before.is_same(now):
        return Finding("ok", f"on {now}, as at the last backup", evidence, subject=path)
    if not is_collected(before.kind, before.source):
        summary = f"mounts of {before.kind} are not collected"
        return Finding("unknown", summary, evidence, subject=path)
    every = (_file_system(one, storage) for one in storage.mounts or ())
    is_mounted = any(before.is_same(one) for one in every)
    what = "on another file system than at the last backup" if is_mounted else "not mounted"
    return Finding(
        "fail",
        f"{what}: was on {before}, now on {now}",
        evidence,
        subject=path,
        why="No backup reads it, and nothing is pruned, until the data is there again.",
        fix=_fix(path),
    )


def _file_system(mount: Mount, storage: Storage) -> FileSystem:
    return FileSystem(mount.type, mount.source, storage.uuids.get(mount.source, ""))


def _fix(path: str) -> Fix:
    text = (
        f"mount it; with a new disk in its place, run `rigops restore HOST {path} --in-place`; if "
        "it moved for good, `rigops backup HOST --moved`"
    )
    return fix_by_hand(text)
