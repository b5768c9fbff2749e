"""What is seen of a host while it is watched, from the lines that its program prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load_once
from rigops.doctor.watch.seen import HostSeen
from rigops.doctor.watch.stream import Stream
from rigops.errors import HostError
from tests.unit.doctor.watched import BOOT, DEAD, HEAD, XID, errors, row

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


class Watched:
    def __init__(self) -> None:
        self.seen = HostSeen("rig", None, load_once(None))
        self.stream = Stream(1)
        self.samples = 0

    def reads(self, *lines: str) -> HostSeen:
        for line in lines:
            if sample := self.stream.take(line):
                self.samples += 1
                self.seen.take(sample, f"2026-11-28T05:00:{self.samples:02}Z")
        return self.seen


@pytest.fixture
def rig() -> Watched:
    watched = Watched()
    watched.reads(*BOOT, HEAD, row(1, 67), row(2, 60))
    return watched


def found(seen: HostSeen) -> list[tuple[str, str, str]]:
    return [(one.status, one.id, one.subject) for one in seen.now]


def told(seen: HostSeen) -> list[str]:
    return [one.summary for one in seen.now]


def test_a_sample_is_complete_with_the_row_of_the_last_card(rig: Watched) -> None:
    now = rig.seen.cards[FIRST].now

    assert (rig.samples, rig.seen.status, rig.seen.driver) == (1, "ok", "535.183.01")
    assert now is not None
    assert (now.celsius, now.watts, now.watts_limit, now.mhz_sm) == (67, 301.2, 350, 1695)
    assert (now.memory_used_mib, now.celsius_slowdown) == (2048, 95)
    assert now.throttle == frozenset({"sw_power_cap"})
    assert rig.reads(row(1, 68)).cards[FIRST].now is now


def test_heat_is_judged_by_the_limits_of_doctor_and_the_worst_is_remembered(rig: Watched) -> None:
    rig.reads(row(1, 96, hot=True), row(2, 92))
    assert ("fail", "tmp.core", f"gpu {FIRST}") in found(rig.seen)
    assert ("fail", "clk.throttle", f"gpu {FIRST}") in found(rig.seen)
    assert ("warn", "tmp.core", f"gpu {SECOND}") in found(rig.seen)

    seen = rig.reads(row(1, 60), row(2, 60))

    assert (found(seen), seen.status) == ([], "fail")
    finding, since = seen.findings["tmp.core", f"gpu {FIRST}"]
    assert (finding.summary, since) == (
        "96 °C: it slows down from 95 °C",
        "2026-11-28T05:00:02Z",
    )
    card = seen.cards[FIRST]
    assert (card.celsius, card.samples) == (96, 3)
    assert card.held == {"sw_power_cap": 3, "hw_thermal_slowdown": 1}


def test_an_unreadable_temperature_is_no_temperature_of_the_start(rig: Watched) -> None:
    now = rig.reads(row(1, "[Unknown Error]"), row(2, 60)).cards[FIRST].now

    assert now is not None
    assert now.celsius is None


def test_new_errors_are_counted_from_the_first_look_and_again_where_a_counter_went_back(
    rig: Watched,
) -> None:
    def sample(total: int, at: float) -> int:
        rig.reads(*errors(total), f"t {at}", row(1, 60), row(2, 60))
        return rig.seen.cards[FIRST].corrected

    before = Watched()
    before.reads(*BOOT[:-1], *errors(500), "t 100.0", HEAD, row(1, 60), row(2, 60))
    assert before.seen.cards[FIRST].corrected == 0

    assert [sample(3, 101), sample(12, 102), sample(2, 103)] == [3, 12, 14]
    assert ("warn", "pci.aer.corr", f"gpu {FIRST}") in found(rig.seen)
    assert "14 new corrected errors at 0000:00:01.1 (BadTLP)" in told(rig.seen)


def test_one_uncorrected_error_is_a_failure(rig: Watched) -> None:
    seen = rig.reads(*errors(1, "fatal", "DLP"), "t 101", row(1, 60), row(2, 60))

    assert ("fail", "pci.aer.uncorr", f"gpu {FIRST}") in found(seen)
    assert (seen.cards[FIRST].uncorrected, seen.cards[SECOND].uncorrected) == (1, 0)


def test_after_a_reboot_counters_begin_at_zero(rig: Watched) -> None:
    rig.reads(*errors(9), "t 101", row(1, 60), row(2, 60))
    rig.seen.lose(HostError("lost", "gone"))
    assert rig.seen.status == "unknown"

    rig.stream = Stream(1)
    rig.reads("h boot-2", *BOOT[1:-1], *errors(11), "t 20.0", HEAD, row(1, 60), row(2, 60))

    assert rig.seen.cards[FIRST].corrected == 20
    assert rig.seen.error is None


def test_a_card_that_is_lost_stays_with_its_xid_and_fails_the_host(rig: Watched) -> None:
    seen = rig.reads(XID, DEAD, row(1, 60), "q ended 15")

    assert (seen.cards[SECOND].now, seen.cards[SECOND].xids, seen.status) == (None, {79: 1}, "fail")
    assert {(status, check) for status, check, _ in found(seen)} == {
        ("fail", "xid"),
        ("fail", "gpu.lost"),
    }
    assert seen.trouble.startswith("Unable to determine the device handle")


def test_a_card_lost_before_the_watch_is_named_though_its_line_is_above_the_head() -> None:
    watched = Watched()

    seen = watched.reads(*BOOT, DEAD, HEAD, row(1, 60), "q ended 15")

    assert ("fail", "gpu.lost", f"gpu {SECOND}") in found(seen)


def test_a_card_that_is_no_longer_reported_is_lost_without_any_words(rig: Watched) -> None:
    seen = rig.reads(row(1, 60), "t 101", "t 102")

    assert found(seen) == [("fail", "gpu.lost", f"gpu {SECOND}")]


def test_a_driver_that_hangs_is_said_to_and_no_xid_is_missed_meanwhile(rig: Watched) -> None:
    rig.reads(*(f"t {100 + second}" for second in range(1, 20)))
    assert (rig.seen.trouble, rig.seen.status) == ("nvidia-smi has printed nothing for 19 s", "ok")

    seen = rig.reads(XID, *(f"t {100 + second}" for second in range(20, 32)))

    assert ("fail", "drv.hang", "host") in found(seen)
    assert ("xid", f"gpu {SECOND}") in seen.findings


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        (("q nvidia-smi: not found", "q ended 127"), "nvidia-smi: not found"),
        (("q started", "q ended 9"), "nvidia-smi ended with exit code 9"),
        (
            ("q started", 'q Field "x" is not a valid field to query.', "q ended 2"),
            'Field "x" is not a valid field to query.',
        ),
    ],
)
def test_a_host_without_an_answer_is_unknown_and_says_why(
    lines: Iterable[str], trouble: str
) -> None:
    seen = Watched().reads("h boot-1", *lines, "t 100", "t 101", "t 190")

    assert (seen.trouble, seen.status, seen.now) == (trouble, "unknown", ())


def test_lines_of_no_source_and_torn_ones_change_nothing(rig: Watched) -> None:
    rig.reads("", "z", "t", "t x", "e nothing", "c", "k absent", "q " + "," * 9000)

    seen = rig.reads(row(1, 60), row(2, 60))

    assert (rig.samples, seen.status, seen.has_log) == (2, "ok", False)
