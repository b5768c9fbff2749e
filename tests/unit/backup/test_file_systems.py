"""Whether two looks at a path saw the same file system."""

from __future__ import annotations

import pytest

from rigops.backup.file_systems import FileSystem, NotedPath, noted_text, parse_noted

DISK = FileSystem("ext4", "/dev/sda1", "1b4e28ba")


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        (DISK, True),
        (DISK._replace(source="/dev/sdb1"), True),  # renamed by a boot
        (DISK._replace(uuid=""), True),  # nobody could read it
        (DISK._replace(uuid="2"), False),  # a new disk of the same name
        (FileSystem("ext4", "/dev/sdb1"), False),
        (FileSystem("btrfs", "/dev/sda1", "2"), False),
    ],
)
def test_a_file_system_is_known_by_its_uuid_wherever_there_is_one(
    now: FileSystem, *, is_same: bool
) -> None:
    assert DISK.is_same(now) == is_same == now.is_same(DISK)


def test_without_a_uuid_kind_and_source_are_compared() -> None:
    server = FileSystem("nfs4", "nas:/data")

    assert server.is_same(FileSystem("nfs4", "nas:/data"))
    assert not server.is_same(FileSystem("nfs4", "nas:/other"))
    assert (str(server), str(DISK)) == ("nfs4 nas:/data", "ext4 UUID 1b4e28ba")


def test_what_is_noted_can_be_read_again() -> None:
    noted = {"/home": NotedPath("/data/home", DISK), "/ü\n": NotedPath("/ü\n", DISK)}

    assert parse_noted(noted_text(noted)) == noted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "rigops.file_systems/2", "paths": {}}',
        '{"schema": "rigops.file_systems/1", "paths": []}',
        '{"schema": "rigops.file_systems/1", "paths": {"/home": {"place": "/home"}}}',
        '{"schema": "rigops.file_systems/1", "paths": {"/home": 1}}',
    ],
)
def test_what_cannot_be_read_is_not_taken_for_nothing(text: str) -> None:
    assert parse_noted(text) is None
