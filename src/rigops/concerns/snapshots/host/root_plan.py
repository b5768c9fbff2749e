"""The plan of a rollback of the root, and whether it would boot. Changes nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import mount_of
from rigops.backup.host.snapshot_names import folder_of
from rigops.backup.host.subvolumes import subvolume_at
from rigops.backup.host.volumes import find_disk, find_on_volume
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.snapshots.host.choosing import parse_when
from rigops.concerns.snapshots.host.creating import free_name
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.root_checks import (
    FSTAB,
    Kernels,
    check_command_line,
    check_files,
    check_fstab_root,
    check_menu,
    check_mounts,
    check_root,
    choose_kernel,
    choose_snapshot,
    needed_files,
    parse_fstab,
)
from rigops.concerns.snapshots.host.root_loader import find_other_loaders
from rigops.concerns.snapshots.host.root_newer import find_newer, summarize
from rigops.concerns.snapshots.host.root_note import WAITS, read_rollback_note, stage_of
from rigops.concerns.snapshots.host.stores import LOCAL
from rigops.hostside.shared.beneath import open_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.backup.host.snapshot_names import SnapshotName
    from rigops.backup.host.subvolumes import Subvolume
    from rigops.backup.host.volumes import Volume
    from rigops.concerns.snapshots.host.root_checks import FstabLine
    from rigops.concerns.snapshots.host.root_note import RollbackNote
    from rigops.concerns.snapshots.host.snapshot_documents import NewerFiles, RollbackRow

_MENU_FILE = "boot/grub/grub.cfg"
_KERNEL_FILE = "vmlinuz-"
_MODULE_FOLDERS = ("usr/lib/modules", "lib/modules")


class RootState(NamedTuple):
    """`name`: of the root that a boot takes; `running` has another one until a rollback's reboot.

    `stage`: of the rollback that `note` is of; empty without.
    """

    volume: Volume
    running: Subvolume
    name: str
    every: tuple[Subvolume, ...]
    note: RollbackNote | None
    stage: str

    @property
    def place(self) -> LocalPlace:
        return LocalPlace(LOCAL, self.volume, receives=False)

    def at(self, path: str) -> str:
        return f"{self.volume.top}/{path}"


class RootPlan(NamedTuple):
    """`aside` and `root`: from the top level. `nested`: from the top of the root.

    `loaders`: platforms of GRUB, whose modules are those of the present root.
    """

    snapshot: SnapshotName
    root: str
    aside: str
    nested: tuple[str, ...]
    kernel: str
    loaders: tuple[str, ...]
    newer: NewerFiles
    notices: tuple[str, ...]

    def document(self, file_system: str) -> RollbackRow:
        return {
            "snapshot": str(self.snapshot),
            "at": utc_text(self.snapshot.at),
            "kind": self.snapshot.kind,
            "root": self.root,
            "file_system": file_system,
            "aside": self.aside,
            "nested": list(self.nested),
            "kernel": self.kernel,
            "newer": self.newer,
            "notices": list(self.notices),
        }


def find_root() -> RootState:
    with open_folder("/") as root:
        mount = mount_of(root)
        if mount is None or mount.kind != "btrfs":
            check_root(mount.kind if mount else "", None)
        volume, inside = find_on_volume(root)
        running = subvolume_at(root, inside)
    check_root("btrfs", running)
    assert running is not None  # noqa: S101 - else it was refused
    every = volume.subvolumes()
    note = read_rollback_note(volume)
    stage = stage_of(note, running.number, every) if note else ""
    name = note.root if note and stage == WAITS else running.path
    return RootState(volume, running, name, tuple(every), note, stage)


def plan_rollback(state: RootState, at: str) -> RootPlan:
    check_command_line(_read_text("/proc/cmdline"), state.name)
    check_fstab_root(parse_fstab(_read_if_there(f"/{FSTAB}")), state.name)
    folder = folder_of("/")
    copies = state.place.copies(folder)
    snapshot = choose_snapshot(
        [one.name for one in copies if one.is_complete], parse_when(at), utc_now()
    )
    source = str(state.place.path(folder, str(snapshot)))
    kernel, notices = _check_root_of(state, source, str(snapshot))
    loaders = [] if is_boot_apart() else find_other_loaders("", source)
    if loaders:
        names = ", ".join(loaders)
        notices.append(f"GRUB was installed since: its modules ({names}) stay as they are now")
    newer = summarize(())
    try:
        newer = find_newer(state.at(state.running.path), source, snapshot)
    except HostError as error:  # no reason to stay with a root that is broken
        notices.append(f"what is newer now could not be listed: {error.message}")
    aside = free_name(utc_now(), "rollback", [one.name for one in copies])
    return RootPlan(
        snapshot=snapshot,
        root=state.name,
        aside=str(state.place.path(folder, aside).relative_to(state.volume.top)),
        nested=_nested_to_move(state),
        kernel=kernel,
        loaders=tuple(loaders),
        newer=newer,
        notices=(*notices, *_swap_notices()),
    )


def _check_root_of(state: RootState, source: str, name: str) -> tuple[str, list[str]]:
    check_files(name, [one for one in needed_files() if _has_itself(source, one)])
    fstab = parse_fstab(_read_text(f"{source}/{FSTAB}"))
    check_fstab_root(fstab, state.name, name)
    is_apart = is_boot_apart()
    menu = _read_if_there(f"{'' if is_apart else source}/{_MENU_FILE}")
    check_menu(menu, _read_text("/proc/cmdline"), state.name, "" if is_apart else name)
    kernel, notices = choose_kernel(_find_kernels(source, is_apart=is_apart), name)
    subvolumes = {one.path: one.number for one in state.every}
    mounts = check_mounts(fstab, state.volume.uuid, _find_disks(fstab), subvolumes)
    return kernel, [*notices, *mounts]


def _has_itself(source: str, path: str) -> bool:
    """Not through a symbolic link, which can lead out of the snapshot."""
    at = source
    for part in path.split("/")[:-1]:
        at = f"{at}/{part}"
        if os.path.islink(at):
            return False
    return os.path.lexists(f"{source}/{path}")


def is_boot_apart() -> bool:
    """A file system or a subvolume of its own, which stays as it is."""
    boot = Path("/boot")
    return boot.is_dir() and boot.stat().st_dev != Path("/").stat().st_dev


def _find_kernels(source: str, *, is_apart: bool) -> Kernels:
    boot = "/boot" if is_apart else f"{source}/boot"
    in_boot = [one[len(_KERNEL_FILE) :] for one in _names_in(boot) if one.startswith(_KERNEL_FILE)]
    with_modules = {
        release
        for folder in _MODULE_FOLDERS
        for release in _names_in(f"{source}/{folder}")
        if _has_itself(source, f"{folder}/{release}/modules.dep")
    }
    return Kernels(tuple(in_boot), tuple(with_modules), is_apart)


def _find_disks(lines: Iterable[FstabLine]) -> dict[str, str]:
    """UUID of a file system by what names it; empty where it is absent."""
    found = {}
    for spec in {one.spec for one in lines if one.is_on_disk}:
        tag, _, value = spec.partition("=")
        if tag == "UUID":
            found[spec] = value.lower() if find_disk(value) else ""
            continue
        device = _ask_tool("findfs", spec) if value and not spec.startswith("/") else spec
        found[spec] = _ask_tool("blkid", "-o", "value", "-s", "UUID", device) if device else ""
    return found


def _ask_tool(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode(errors="replace").strip()


def _nested_to_move(state: RootState) -> tuple[str, ...]:
    """Of a rollback that waits for its reboot they are in the new root already."""
    roots = {one.number: one.path for one in state.every if one.path == state.name}
    roots[state.running.number] = state.running.path
    return tuple(
        sorted(
            one.path[len(roots[one.above]) + 1 :]
            for one in state.every
            if one.above in roots and not one.is_read_only
        )
    )


def _swap_notices() -> list[str]:
    notices = []
    for line in _read_text("/proc/swaps").splitlines()[1:]:
        path, kind = (*line.split(), "", "")[:2]
        if kind == "file" and os.path.exists(path) and _is_in_root(path):
            notices.append(f"swap file {path} goes aside with the root")
    return notices


def _is_in_root(path: str) -> bool:
    return Path(path).stat().st_dev == Path("/").stat().st_dev


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read_if_there(path: str) -> str:
    return _read_text(path) if Path(path).is_file() else ""


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}") from error
