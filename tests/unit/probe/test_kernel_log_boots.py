"""The list of boots."""

from __future__ import annotations

import pytest

from rigops.probe.sections.boots import BootRecord, parse

LIST = "== journalctl --list-boots -q --no-pager\n{}\n"
ID = "0123456789abcdef0123456789abcdef"


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


def test_rubbish_is_unparsed() -> None:
    assert parse("rubbish").unparsed == ("rubbish",)
    assert parse(LIST.format("rubbish")).unparsed == ("rubbish",)
    assert not parse("").unparsed
