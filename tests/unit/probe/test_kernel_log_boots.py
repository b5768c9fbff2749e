"""The list of boots, and whether the last one ended as it should."""

from __future__ import annotations

import pytest

from rigops.probe.sections.boots import BootRecord, parse

STORAGE = "== test -e /var/log/journal/*/*.journal\n{}\n"
END = "== journalctl -b -1 -q --no-pager -o short-iso-precise -n 40\n{}\n"
LIST = "== journalctl --list-boots -q --no-pager\n{}\n"
ID = "0123456789abcdef0123456789abcdef"
AT = "2026-01-30T18:00:00.000001+0000 rig "


@pytest.mark.parametrize(
    "line",
    [
        f" -1 {ID} Fri 2026-01-30 17:00:00 UTC—Fri 2026-01-30 18:00:00 UTC",
        f" -1 {ID} Fri 2026-01-30 17:00:00 UTC Fri 2026-01-30 18:00:00 UTC",
    ],
)
def test_lists_of_older_and_newer_systems(line: str) -> None:
    head = "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY"
    found = parse(LIST.format(f"{head}\n{line}"))

    assert found.boots == (
        BootRecord(
            offset=-1,
            boot_id=ID,
            first="2026-01-30T17:00:00Z",
            last="2026-01-30T18:00:00Z",
            line=line.strip(),
        ),
    )
    assert not found.unparsed


def test_a_zone_that_is_only_a_name_tells_no_moment() -> None:
    (found,) = parse(LIST.format(f" 0 {ID} Fri 2026-01-30 17:00:00 CET—Fri")).boots

    assert (found.first, found.last) == (None, None)


@pytest.mark.parametrize(
    ("lines", "cleanly"),
    [
        (["systemd[1]: Reached target shutdown.target - System Shutdown."], True),
        (["systemd[1]: Reached target Power-Off."], True),
        (["systemd-journald[18]: Journal stopped"], True),
        (["systemd-shutdown[1]: Syncing filesystems and block devices."], True),
        (["kernel: reboot: Restarting system"], True),
        (["sshd[9]: session opened", "CRON[1]: x", "kernel: NVRM: Xid"], False),
        (["sshd[9]: session opened"], None),
        ([], None),
    ],
)
def test_how_the_previous_boot_ended(lines: list[str], *, cleanly: bool | None) -> None:
    found = parse(END.format("\n".join(AT + line for line in lines)))

    assert found.previous_ended_cleanly is cleanly
    assert len(found.previous_end) == len(lines)


@pytest.mark.parametrize(
    "said",
    [
        "Data from the specified boot (-1) is not available: No such boot ID in journal",
        "No journal files were opened due to insufficient permissions.",
        "-- No entries --",
        "Specifying boot ID or boot offset has no effect, no persistent journal was found.",
    ],
)
def test_no_previous_boot_is_not_one_that_ended_badly(said: str) -> None:
    found = parse(END.format("\n".join([said] * 5)))

    assert found.previous_end == ()
    assert found.previous_ended_cleanly is None


@pytest.mark.parametrize(("said", "kept"), [("yes", True), ("no", False), ("", None)])
def test_whether_the_journal_outlives_a_boot(said: str, *, kept: bool | None) -> None:
    assert parse(STORAGE.format(said)).persistent is kept


def test_rubbish_is_unparsed() -> None:
    assert parse("rubbish").unparsed == ("rubbish",)
    assert parse(LIST.format("rubbish")).unparsed == ("rubbish",)
    assert not parse("").unparsed
