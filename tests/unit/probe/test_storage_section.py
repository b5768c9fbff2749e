from __future__ import annotations

import pytest

from rigops.probe.sections import storage
from tests.unit.probe import host_sections


def test_mounts_and_what_fstab_wants() -> None:
    found = storage.parse(host_sections.STORAGE)

    assert found.mounts is not None
    assert [(one.target, one.type) for one in found.mounts] == [
        ("/", "btrfs"),
        ("/mnt/big disk", "ext4"),
        ("/models", "cifs"),
    ]
    assert "ro" in found.mounts[1].options
    assert found.planned is not None
    assert [one.target for one in found.planned] == ["/", "/mnt/big disk"]
    assert not found.unparsed


def test_disks_with_what_lies_on_them() -> None:
    disks = storage.parse(host_sections.STORAGE).disks

    assert disks is not None
    assert (disks[0].name, disks[0].type, disks[0].transport) == ("nvme0n1", "disk", "nvme")
    assert (disks[1].parent, disks[1].model) == ("nvme0n1", None)


def test_btrfs_says_three_things_about_one_file_system() -> None:
    (one,) = storage.parse(host_sections.STORAGE).btrfs

    assert one.target == "/"
    assert one.counters is not None
    assert [(c.device, c.name, c.count) for c in one.counters] == [
        ("/dev/nvme0n1p2", "write_io_errs", 0),
        ("/dev/nvme0n1p2", "corruption_errs", 12),
        ("devid:4", "read_io_errs", 0),
    ]
    assert (one.unallocated_bytes, one.missing_bytes) == (10_000_000_000, 0)
    assert one.scrub is not None
    assert (one.scrub.status, one.scrub.faults) == ("finished", {"csum": 5, "uncorrectable": 2})


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("UUID: 1-2\n\tno stats available\nTotal to scrub: 1GiB", "never"),
        ("UUID: 1-2\n\tno stats available\nStatus: running", "running"),
        ("ERROR: not a btrfs filesystem: /", None),
    ],
)
def test_scrubs_that_never_ran_or_run_now(said: str, status: str | None) -> None:
    (one,) = storage.parse(f"== btrfs scrub status /\n{said}\n").btrfs

    assert one.scrub is not None
    assert one.scrub.status == status


def test_a_refused_question_is_no_answer() -> None:
    (one,) = storage.parse(
        "== btrfs device stats /\nERROR: getting device info failed: Operation not permitted\n"
    ).btrfs

    assert one.counters is None


def test_file_systems_are_known_by_the_sources_of_their_mounts() -> None:
    assert storage.parse(host_sections.STORAGE).uuids == {
        "/dev/nvme0n1p2": "5ed1c2a0-35a5-4f2f-b8ae-1a0b0e4ec8a1",
        "/dev/sda1": "1E2A-77C0",
    }
    assert storage.parse("== blkid -p -s UUID\nblkid: error\n").unparsed == ("blkid: error",)
