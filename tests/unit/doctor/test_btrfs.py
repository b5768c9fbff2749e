"""btrfs as doctor sees it: errors of devices, missing ones, room for chunks, scrubs."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

import pytest

from rigops.probe.sections.storage import FSTAB, MOUNTS
from tests.unit.doctor.examining import look, spec

STATS: Final = "btrfs.stats"
MISSING: Final = "btrfs.raid_missing"
SPACE: Final = "btrfs.space"
SCRUB: Final = "btrfs.scrub"
ALL: Final = (STATS, MISSING, SPACE, SCRUB)
NOW: Final = int(datetime(2026, 11, 20, 12, tzinfo=timezone.utc).timestamp())
DECLARED: Final = spec(snapshots={"subvolumes": ["/"], "keep": "7d"})
HAD: Final = f"== {MOUNTS}\n/dev/sda1 /data btrfs rw,relatime,subvol=/ 0 0\n\n"
COUNTERS: Final = """\
== btrfs device stats /data
[/dev/sda1].write_io_errs    0
[/dev/sda1].read_io_errs     0
[/dev/sda1].flush_io_errs    0
[/dev/sda1].corruption_errs  0
[/dev/sda1].generation_errs  0
[/dev/sdb1].write_io_errs    0
[/dev/sdb1].read_io_errs     0
[/dev/sdb1].flush_io_errs    0
[/dev/sdb1].corruption_errs  0
[/dev/sdb1].generation_errs  0
"""
USAGE: Final = """\
== btrfs filesystem usage -b /data
Overall:
    Device size:\t\t        2000000000000
    Device allocated:\t\t        1500000000000
    Device unallocated:\t\t         500000000000
    Device missing:\t\t                    0
    Device slack:\t\t                    0
    Used:\t\t\t        1000000000000
    Free (estimated):\t\t         500000000000\t(min: 250000000000)
    Data ratio:\t\t\t                 2.00
    Metadata ratio:\t\t                 2.00

Data,RAID1: Size:700000000000, Used:500000000000 (71.43%)
   /dev/sda1\t700000000000
   /dev/sdb1\t700000000000

Unallocated:
   /dev/sda1\t250000000000
   /dev/sdb1\t250000000000
"""
SCRUBBED: Final = """\
== btrfs scrub status /data
UUID:             2d4b9a4c-2f3a-4a8f-9c1e-53a6a7f0b6d1
Scrub started:    Sun Nov  1 03:00:01 2026
Status:           finished
Duration:         1:05:00
Total to scrub:   931.32GiB
Rate:             244.51MiB/s
Error summary:    no errors found
"""
NEVER: Final = """\
== btrfs scrub status /data
UUID:             2d4b9a4c-2f3a-4a8f-9c1e-53a6a7f0b6d1
\tno stats available
Total to scrub:   931.32GiB
Rate:             0.00B/s
Error summary:    no errors found
"""
BEYOND_REPAIR: Final = """\
Error summary:    csum=5
  Corrected:      3
  Uncorrectable:  2
  Unverified:     0
"""
CLOCK: Final = f"== date +%s\n{NOW}\n"
WHOLE: Final = HAD + COUNTERS + USAGE + SCRUBBED


@pytest.mark.parametrize("check", ALL)
def test_a_healthy_one_is_well_with_evidence(check: str) -> None:
    found = look(check, storage=WHOLE, boot=CLOCK)

    assert (found.status, found.subject) == ("ok", "/data")
    assert found.evidence


@pytest.mark.parametrize("check", ALL)
def test_a_host_without_btrfs_is_skipped_only_where_all_was_collected(check: str) -> None:
    without = f"== {MOUNTS}\n/dev/sda1 / ext4 rw 0 0\n"

    assert look(check, storage=without).status == "skipped"
    assert look(check, storage=without, cut={"storage": 141}).status == "unknown"


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize(
    "output", [None, "", HAD, HAD + "== btrfs device stats /data\nERROR: no\n"]
)
def test_what_was_not_collected_is_unknown(check: str, output: str | None) -> None:
    assert look(check, storage=output, boot=CLOCK).status == "unknown"


@pytest.mark.parametrize("check", [MISSING, SPACE, SCRUB])
def test_without_root_it_is_unknown(check: str) -> None:
    assert look(check, storage=HAD + COUNTERS, boot=CLOCK).status == "unknown"


@pytest.mark.parametrize(
    ("counter", "status", "said"),
    [
        ("corruption_errs", "fail", "/dev/sdb1: 12 checksum errors"),
        ("generation_errs", "fail", "/dev/sdb1: 12 outdated blocks"),
        ("write_io_errs", "warn", "/dev/sdb1: 12 failed writes"),
        ("read_io_errs", "warn", "/dev/sdb1: 12 failed reads"),
        ("flush_io_errs", "warn", "/dev/sdb1: 12 failed flushes"),
    ],
)
def test_wrong_data_is_a_failure_and_a_device_that_does_not_answer_a_warning(
    counter: str, status: str, said: str
) -> None:
    line = next(one for one in COUNTERS.splitlines() if one.startswith(f"[/dev/sdb1].{counter}"))
    found = look(STATS, storage=WHOLE.replace(line, f"{line[:-1]}12"))

    assert (found.status, found.summary, found.subject) == (status, said, "/data")
    assert [one.line for one in found.evidence] == [f"{line[:-1]}12"]
    assert found.fix is not None
    assert "SMART" in found.fix.text
    assert "btrfs scrub start -B /data" in found.fix.text
    assert "btrfs device stats -z /data" in found.fix.text


@pytest.mark.parametrize(
    "output",
    [
        WHOLE.replace("missing:\t\t                    0", "missing:\t\t        1000000000000"),
        WHOLE.replace("/dev/sdb1]", "devid:2]"),
        HAD + COUNTERS.replace("/dev/sdb1]", "<missing disk>]"),
    ],
)
def test_a_missing_device_is_a_failure(output: str) -> None:
    found = look(MISSING, storage=output)

    assert (found.status, found.subject) == ("fail", "/data")
    assert found.summary.startswith("a device is missing")
    assert found.fix is not None
    assert "btrfs replace start DEVID NEW /data" in found.fix.text


@pytest.mark.parametrize(
    ("size", "left", "status"),
    [
        (2_000_000_000_000, 0, "warn"),
        (2_000_000_000_000, 1_000_000_000, "warn"),
        (2_000_000_000_000, 2_000_000_000, "ok"),
        (4_000_000_000, 300_000_000, "ok"),
        (4_000_000_000, 100_000_000, "warn"),
    ],
)
def test_without_room_for_a_chunk_a_balance_is_the_fix(size: int, left: int, status: str) -> None:
    output = WHOLE.replace("size:\t\t        2000000000000", f"size:\t\t        {size}")
    found = look(SPACE, storage=output.replace("\t         500000000000\n", f"\t  {left}\n", 1))

    assert found.status == status
    if status == "warn":
        assert "ENOSPC" in found.why
        assert found.fix is not None
        assert "btrfs balance start -dusage=10 /data" in found.fix.text


def test_errors_that_a_scrub_could_not_correct_are_a_failure() -> None:
    output = WHOLE.replace("Error summary:    no errors found\n", BEYOND_REPAIR)
    found = look(SCRUB, storage=output, boot=CLOCK)

    assert (found.status, found.summary) == ("fail", "the last scrub could not correct 2 errors")


def test_errors_that_a_scrub_corrected_are_well() -> None:
    corrected = BEYOND_REPAIR.replace("Uncorrectable:  2", "Uncorrectable:  0")
    output = WHOLE.replace("Error summary:    no errors found\n", corrected)

    assert look(SCRUB, storage=output, boot=CLOCK).status == "ok"


@pytest.mark.parametrize(
    ("output", "summary"),
    [
        (NEVER, "no scrub has run yet"),
        (SCRUBBED.replace("finished", "aborted"), "the last scrub was aborted"),
        (SCRUBBED.replace("finished", "interrupted"), "the last scrub was interrupted"),
        (SCRUBBED.replace("Nov  1", "Aug  1"), "the last scrub was 111 days ago"),
    ],
)
def test_a_scrub_that_is_lacking_is_a_warning_only_with_snapshots(
    output: str, summary: str
) -> None:
    storage = HAD + COUNTERS + USAGE + output
    alone = look(SCRUB, storage=storage, boot=CLOCK)
    declared = look(SCRUB, DECLARED, storage=storage, boot=CLOCK)

    assert (alone.status, alone.summary) == ("info", summary)
    assert (declared.status, declared.summary) == ("warn", summary)


def test_a_scrub_that_runs_is_information() -> None:
    running = WHOLE.replace("finished", "running")

    assert look(SCRUB, DECLARED, storage=running, boot=CLOCK).status == "info"


def test_without_a_clock_the_age_of_a_scrub_is_unknown() -> None:
    assert look(SCRUB, storage=WHOLE, boot=None).status == "unknown"


def fstab(plan: str, *mounts: str) -> str:
    return f"== {MOUNTS}\n{''.join(f'{one} 0 0{chr(10)}' for one in mounts)}\n== {FSTAB}\n{plan}\n"


def test_a_file_system_that_was_forced_read_only_is_a_failure_with_both_lines() -> None:
    output = fstab("UUID=1-2 /data/ btrfs noatime 0 0", "/dev/sda1 /data btrfs ro,noatime")
    found = look("disk.ro", storage=output)

    assert (found.status, found.subject) == ("fail", "/data")
    assert [one.line for one in found.evidence] == [
        "/dev/sda1 /data btrfs ro,noatime 0 0",
        "UUID=1-2 /data/ btrfs noatime 0 0",
    ]
    assert found.fix is not None
    assert "btrfs device stats /data" in found.fix.text


@pytest.mark.parametrize(
    ("plan", "mount"),
    [
        ("UUID=1-2 /data btrfs ro,noatime 0 0", "/dev/sda1 /data btrfs ro,noatime"),
        ("UUID=1-2 /data btrfs noatime 0 0", "/dev/sda1 /data btrfs rw,noatime"),
        ("UUID=1-2 /other btrfs noatime 0 0", "/dev/sda1 /data btrfs ro,noatime"),
        ("/cd.iso /data iso9660 loop 0 0", "/dev/loop0 /data iso9660 ro"),
    ],
)
def test_what_fstab_wants_so_is_well(plan: str, mount: str) -> None:
    assert look("disk.ro", storage=fstab(plan, mount)).status == "ok"


@pytest.mark.parametrize("output", [None, "", HAD])
def test_without_mounts_or_fstab_it_is_unknown(output: str | None) -> None:
    assert look("disk.ro", storage=output).status == "unknown"
