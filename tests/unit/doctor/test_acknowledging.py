"""Acknowledged findings, and incidents that a preflight has outlived."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from rigops.doctor.acknowledging import (
    acknowledge,
    can_be_acknowledged,
    outlived,
    with_acknowledgements,
    without_author,
)
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, fix_by_hand
from rigops.inventory.spec import RigSpec
from rigops.probe.sections.rigops_state import RigopsState
from rigops.record.shell import FAILED_PROOF
from tests.unit.doctor.examining import catalog, snapshot_of
from tests.unit.doctor.test_outranked import proven

TODAY: Final = "2026-11-28"
NARROW: Final = Finding(
    "warn", "RTX 3090: x8 where x16 is possible", id="pci.width", subject="gpu 0000:0a:00.0",
    fix=fix_by_hand("reseat it"),
)  # fmt: skip
FALLEN: Final = Finding(
    "fail", "Xid 79: fell off the bus, 2 times", id="xid", subject="gpu 0000:0a:00.0",
    data={"xid": 79, "count": 2, "last": "2026-11-20T10:00:00Z", "boot": "current"},
)  # fmt: skip


def status(known: Finding, now: Finding, *, until: str | None = None) -> str:
    return judged(known, now, until=until).status


def judged(known: Finding, now: Finding, *, until: str | None = None) -> Finding:
    one = acknowledge(
        known, who="me@desk", at="2026-11-21T08:00:00Z", because="shares the M.2", until=until
    )
    (found,) = with_acknowledgements([now], (one,), TODAY)
    return found


def test_an_acknowledged_finding_is_information_that_names_who_when_and_why() -> None:
    found = judged(NARROW, NARROW, until="2026-12-24")

    text = "acknowledged by me@desk on 2026-11-21 until 2026-12-24: shares the M.2"
    assert (found.status, found.fix) == ("info", None)
    assert found.summary == f"{NARROW.summary}; {text}"
    assert found.evidence[-1].line == text
    others = without_author(found)
    assert others.summary == f"{NARROW.summary}; acknowledged"
    assert "me@desk" not in str(others.as_json())
    assert found.data["acknowledged"] == {
        "who": "me@desk", "at": "2026-11-21T08:00:00Z", "until": "2026-12-24",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("now", "counts"),
    [
        (replace(NARROW, summary="RTX 3090: x4 where x16 is possible"), True),
        (replace(NARROW, status="fail"), True),
        (replace(NARROW, subject="gpu 0000:0b:00.0"), True),
        (replace(NARROW, id="pci.chipset_lane"), True),
        (
            replace(NARROW, summary=f"{NARROW.summary} (link x16 at the baseline of 2026-11-02)"),
            False,
        ),
    ],
)
def test_a_state_that_changes_or_gets_worse_counts_again(now: Finding, *, counts: bool) -> None:
    assert status(NARROW, now) == (now.status if counts else "info")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("83 °C, and it slows down from 90 °C", "86 °C, and it slows down from 90 °C"),
        ("12 errors, 0.2 a minute since the start", "12 errors, 0.1 a minute since the start"),
        ("the last self-check was 4 days ago", "the last self-check was 6 days ago"),
        ("x8; x16 at the baseline of 2026-11-02", "x8; x16 at the baseline of 2026-11-24"),
    ],
)  # fmt: skip
def test_measured_values_are_no_part_of_a_state(was: str, now: str) -> None:
    assert status(replace(NARROW, summary=was), replace(NARROW, summary=now)) == "info"


def test_an_incident_is_acknowledged_up_to_its_last_time() -> None:
    after_a_boot = "Xid 79: fell off the bus, 2 times (in the previous boot)"
    assert status(FALLEN, replace(FALLEN, summary=after_a_boot)) == "info"

    again = {**FALLEN.data, "last": "2026-11-27T10:00:00Z"}
    assert status(FALLEN, replace(FALLEN, data=again)) == "fail"
    assert status(FALLEN, replace(FALLEN, data={**FALLEN.data, "xid": 31})) == "fail"


def test_after_its_last_day_it_counts_and_says_so_and_can_be_acknowledged_anew() -> None:
    assert status(NARROW, NARROW, until=TODAY) == "info"

    over = judged(NARROW, NARROW, until="2026-11-27")
    assert over.status == "warn"
    assert over.summary.endswith("; acknowledged until 2026-11-27, which is over")
    assert over.fix == NARROW.fix
    assert status(over, NARROW) == "info"


def test_neither_what_is_not_known_nor_a_failed_proof_can_be_acknowledged() -> None:
    assert not can_be_acknowledged(Finding("unknown", "no kernel log", id="xid", essential=True))
    failed = Finding("fail", "wrong data", id="p2p.proof")
    assert not can_be_acknowledged(failed)
    assert status(failed, failed) == "fail"


@pytest.mark.parametrize(
    ("passed_at", "now"),
    [("2026-11-20T09:00:00Z", "fail"), ("2026-11-20T11:00:00Z", "info")],
)
def test_an_incident_before_the_last_preflight_that_passed_is_information(
    passed_at: str, now: str
) -> None:
    records = proven(at=passed_at)
    snapshot = snapshot_of(rigops_state=RigopsState(records=records))

    (found,) = outlived(Examined(snapshot, RigSpec(), catalog()), [FALLEN])
    assert found.status == now

    failed = snapshot_of(rigops_state=RigopsState(records={**records, FAILED_PROOF: "damaged"}))
    assert outlived(Examined(failed, RigSpec(), catalog()), [FALLEN]) == [FALLEN]
