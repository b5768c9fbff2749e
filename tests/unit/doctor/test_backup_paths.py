"""Declared paths on the file systems of their last backups, and on others, as doctor sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.backup.file_systems import FILE_SYSTEMS_FILE, FileSystem, NotedPath, noted_text
from rigops.probe.sections.rigops_state import OWNED_FILES
from rigops.probe.sections.storage import MOUNTS, UUIDS
from tests.unit.doctor.examining import look, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

HOME: Final = spec(snapshots={"subvolumes": ["/data/home"]})
OLD: Final = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
NEW: Final = "2b4e28ba-2fa1-11d2-883f-0016d3cca427"
ROOT: Final = "3b4e28ba-2fa1-11d2-883f-0016d3cca427"
DISK: Final = FileSystem("btrfs", "/dev/sda", OLD)
AT_ROOT: Final = "/dev/nvme0n1p2 / ext4 rw,relatime 0 0"
AT_DATA: Final = "/dev/sda /data btrfs rw,subvolid=5,subvol=/ 0 0"


def state(*paths: str, on: FileSystem = DISK, places: tuple[str, ...] = ()) -> str:
    noted = {path: NotedPath(place, on) for path, place in zip(paths, places or paths, strict=True)}
    return f"== {FILE_SYSTEMS_FILE}\n{noted_text(noted)}\n== {OWNED_FILES}\n"


def storage(*mounts: str, has_uuids: bool = True, **uuids: str) -> str:
    known = {"nvme0n1p2": ROOT, "sda": OLD, **uuids}
    rows = "".join(f'/dev/{name}: UUID="{uuid}"\n' for name, uuid in known.items())
    written = "\n".join((AT_ROOT, *mounts))
    return f"== {MOUNTS}\n{written}\n" + (f"== {UUIDS}\n{rows}" if has_uuids else "")


def judged(mounted: str | None, noted: str | None = None, declared: Any = HOME) -> Finding:
    noted = state("/data/home") if noted is None else noted
    return look("backup.paths", declared, rigops_state=noted, storage=mounted)


@pytest.mark.parametrize(
    "mounted",
    [
        storage(AT_DATA),
        storage("/dev/sdb /data btrfs rw 0 0", sda=NEW, sdb=OLD),  # renamed by a boot
        storage("/dev/sda /data/home btrfs rw,subvol=/home 0 0"),
        storage("/dev/sdb /data btrfs rw 0 0", AT_DATA, sdb=NEW),  # hidden by the other
        storage(AT_DATA, "/dev/sdb /data/homes ext4 rw 0 0", sdb=NEW),
        storage(AT_DATA, "/dev/sdb /data/home/big ext4 rw 0 0", sdb=NEW),
    ],
)
def test_the_same_file_system_is_well_however_it_is_named_and_mounted(mounted: str) -> None:
    assert judged(mounted).status == "ok"


def test_a_disk_that_is_not_mounted_fails_with_what_it_was_and_the_fix() -> None:
    found = judged(storage())

    assert (found.status, found.subject) == ("fail", "/data/home")
    assert found.summary == f"not mounted: was on btrfs UUID {OLD}, now on ext4 UUID {ROOT}"
    assert [one.line for one in found.evidence] == [OLD, AT_ROOT]
    assert found.fix is not None
    assert "`rigops restore HOST /data/home --in-place`" in found.fix.text


@pytest.mark.parametrize(
    "mounted",
    [
        storage(AT_DATA, sda=NEW),
        storage(AT_DATA, "/dev/sdb /data/home ext4 rw 0 0", sdb=NEW),
        storage("/dev/sda /elsewhere btrfs rw 0 0"),
    ],
)
def test_another_file_system_in_its_place_fails(mounted: str) -> None:
    assert judged(mounted).status == "fail"


def test_an_automount_is_judged_only_while_it_is_mounted() -> None:
    idle = "systemd-1 /data autofs rw,relatime,fd=1 0 0"

    assert judged(storage(idle)).status == "info"
    assert judged(storage(idle, AT_DATA)).status == "ok"
    assert judged(storage(idle, AT_DATA, sda=NEW)).status == "fail"


def test_what_is_still_mounted_elsewhere_is_not_called_unmounted() -> None:
    found = judged(storage("/dev/sda /mnt btrfs rw 0 0"))

    assert found.summary.startswith("on another file system than at the last backup: was on ")


def test_paths_of_both_engines_are_judged_behind_links_on_the_root_and_on_servers() -> None:
    declared = spec(
        snapshots={"subvolumes": ["/data/home"]},
        borg={"repository": "/mnt/b", "paths": ["/data/home/", "/etc"], "keep": "7d"},
    )
    linked = judged(storage(AT_DATA), state("/home", places=("/data/home",)),
                    spec(snapshots={"subvolumes": ["/home"]}))  # fmt: skip
    server = FileSystem("nfs4", "nas:/data")
    served = judged(
        storage("nas:/data /data nfs4 rw 0 0"), state("/data/home", on=server), declared
    )
    gone = judged(storage(), state("/data/home", on=server), declared)
    on_root = judged(
        storage(), state("/etc", on=FileSystem("ext4", "/dev/nvme0n1p2", ROOT)), declared
    )

    assert [one.status for one in (linked, served, gone, on_root)] == ["ok", "ok", "fail", "ok"]


@pytest.mark.parametrize(
    ("mounted", "noted"),
    [
        (None, None),
        (storage(AT_DATA, has_uuids=False), None),
        (storage("/dev/sdb /data btrfs rw 0 0", has_uuids=False), None),
        (f"== {MOUNTS}\n", None),
        (storage(AT_DATA), f"== {FILE_SYSTEMS_FILE}\n[]\n== {OWNED_FILES}\n"),
        (storage(AT_DATA), "== /var/lib/rigops/x.json\n{}\n"),
        (storage(), state("/data/home", on=FileSystem("tmpfs", "memory"))),
    ],
)
def test_what_cannot_be_told_is_unknown(mounted: str | None, noted: str | None) -> None:
    assert judged(mounted, noted).status == "unknown"


def test_before_the_first_backup_that_notes_it_nothing_is_judged() -> None:
    assert judged(storage(), f"== {OWNED_FILES}\n").status == "info"
    assert judged(storage(), state("/other")).status == "info"
    assert judged(storage(), None, spec(gpus=2)).status == "skipped"
