"""What becomes of a declared path that is on another file system than at its last backup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rigops.backup.file_systems import FileSystem, NotedPath
from rigops.backup.host import noted_places
from rigops.backup.host.errors import HostError
from rigops.backup.host.noted_places import (
    demand_mounted,
    find_place,
    is_elsewhere,
    note_places,
    note_restored,
    read_noted,
)

if TYPE_CHECKING:
    from pathlib import Path

ROOT = FileSystem("ext4", "/dev/nvme0n1p2", "root")
DISK = FileSystem("btrfs", "/dev/sda", "old")
NEW = FileSystem("btrfs", "/dev/sda", "new")


@dataclass
class Machine:
    """`paths`: those that are there, and the file systems that they are on; `empty`: folders."""

    paths: dict[str, FileSystem] = field(default_factory=lambda: {"/": ROOT})
    empty: tuple[str, ...] = ()

    def look(self, path: str) -> NotedPath | None:
        return NotedPath(path, self.paths[path]) if path in self.paths else None

    def notes(self, *paths: str) -> None:
        note_places({path: NotedPath(path, self.paths[path]) for path in paths})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    found = Machine()
    monkeypatch.setattr(noted_places, "FILE_SYSTEMS_FILE", str(tmp_path / "lib/noted.json"))
    monkeypatch.setattr(noted_places, "_PLACES_LOCK", str(tmp_path / "run/lock"))
    monkeypatch.setattr(noted_places, "_look_at", found.look)
    monkeypatch.setattr(noted_places, "_has_data", lambda path: path not in found.empty)
    found.paths.update({"/data": DISK, "/data/home": DISK, "/data/home/me": DISK, "/etc": ROOT})
    return found


def test_the_first_run_takes_what_is_there_and_later_ones_only_that(machine: Machine) -> None:
    assert not is_elsewhere("/data/home")
    machine.notes("/data/home", "/etc")
    machine.paths["/data/home"] = ROOT

    with pytest.raises(HostError) as refused:
        find_place("/data/home")

    assert refused.value.message == (
        "/data/home is on another file system than at the last backup (was btrfs UUID old, now "
        "ext4 UUID root)"
    )
    assert "rigops backup HOST --moved" in refused.value.fix
    assert (is_elsewhere("/data/home"), is_elsewhere("/etc")) == (True, False)
    assert find_place("/data/home", accepts_moved=True) == NotedPath("/data/home", ROOT)


def test_what_is_not_there_is_left_to_whoever_opens_it(machine: Machine) -> None:
    machine.notes("/data/home")
    del machine.paths["/data/home"]

    assert find_place("/data/home") is None


def test_notes_of_one_engine_leave_those_of_another(machine: Machine) -> None:
    machine.notes("/data/home")
    machine.notes("/etc")

    assert set(read_noted()) == {"/data/home", "/etc"}


def test_a_restore_notes_the_new_disk_for_the_path_and_what_is_below_it(machine: Machine) -> None:
    machine.paths["/data/home/vm"] = DISK
    machine.notes("/data", "/data/home", "/data/home/me", "/data/home/vm", "/etc")
    machine.empty = ("/data/home", "/data/home/vm")  # another subvolume, which a snapshot lacks
    machine.paths.update({path: NEW for path in machine.paths if path.startswith("/data")})

    note_restored("/data/home")

    assert {path for path in machine.paths if is_elsewhere(path)} == {"/data", "/data/home/vm"}


def test_a_restore_does_not_fill_the_mount_point_of_a_disk_that_is_not_mounted(
    machine: Machine,
) -> None:
    machine.notes("/data/home", "/etc")
    demand_mounted("/data/home/me")
    machine.paths = {"/": ROOT, "/data": ROOT, "/etc": ROOT}

    for path in ("/data/home", "/data/home/me/thesis"):
        with pytest.raises(HostError, match="no file system is mounted there now"):
            demand_mounted(path)
    demand_mounted("/etc/fstab")
    demand_mounted("/srv")  # nobody declared it
    machine.paths["/data"] = NEW
    demand_mounted("/data/home")
