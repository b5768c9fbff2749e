"""The host's clock: far off is a warning with both times, what fails, and the fix."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import look
from tests.unit.probe import answers

TIME = "time"
ASKED_AT = 1769882400  # 2026-01-31T18:00:00Z, when the bundles of these tests were collected
SYNCHRONIZED = "== ls /run/systemd/timesync/synchronized\n{}\n"


def boot(epoch_s: int) -> str:
    return f"{answers.BOOT}== date +%s\n{epoch_s}\n"


def test_a_clock_years_ahead_is_a_warning() -> None:
    found = look(TIME, boot=boot(1924992000))

    assert found.status == "warn"
    assert "2031-01-01 00:00:00 UTC" in found.summary
    assert "2026-01-31 18:00:00 UTC" in found.summary
    assert "expired" in found.why
    assert found.fix is not None
    assert (found.fix.kind, "timedatectl" in found.fix.text) == ("hands", True)
    assert found.evidence[0].line == "1924992000"


def test_a_clock_far_behind_is_one_too_whatever_a_service_says() -> None:
    found = look(TIME, boot=boot(0), limits=SYNCHRONIZED.format("yes"))

    assert found.status == "warn"
    assert "not yet valid" in found.why


@pytest.mark.parametrize("off", [0, 5, -3600])
def test_a_clock_that_is_about_right_is_well(off: int) -> None:
    assert look(TIME, boot=boot(ASKED_AT + off)).status == "ok"


def test_a_service_that_has_reached_nobody_is_told() -> None:
    found = look(TIME, boot=boot(ASKED_AT), limits=SYNCHRONIZED.format("no"))

    assert found.status == "info"
    assert found.evidence[0].line == "no"


def test_what_was_not_asked_is_unknown() -> None:
    assert look(TIME).status == "unknown"
    assert look(TIME, boot=None).status == "unknown"
