"""The daily self-check of a host, as doctor sees it: whether it runs, and what it found."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Final

import pytest

from rigops.concerns.monitoring import record
from rigops.concerns.monitoring.concern import MONITORING
from rigops.probe.sections.rigops_state import OWNED_FILES, OWNED_UNITS
from tests.unit.doctor.examining import look, spec

CHECK: Final = "rigops.selfcheck"
TIMER: Final = "rigops-self-check.timer"
AT: Final = "2026-11-24T00:40:00Z"
NOON: Final = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
LOST: Final = {
    "status": "fail", "id": "gpu.count", "subject": "host", "summary": "2 of 3 cards",
    "source": "gpu.count",
}  # fmt: skip
WELL: Final = {**LOST, "status": "ok"}


def ran(*findings: dict[str, str], at: str = AT) -> str:
    document = {"schema": record.SCHEMA, "at": at, "findings": findings, "reported": []}
    return json.dumps(document)


def state(text: str | None, timer: str = "active") -> str:
    written = f"== {record.PATH}\n{text}\n" if text is not None else ""
    unit = f"Id={TIMER}\nActiveState={timer}\nUnitFileState=enabled\nDropInPaths=\n"
    return f"{written}== {OWNED_FILES}\n== {OWNED_UNITS}\n{unit if timer else ''}"


def boot(days: float = 0, uptime_s: int = 90_000) -> str:
    now = int(NOON.timestamp() + days * 86400)
    return f"== /proc/uptime\n{uptime_s}.00 1.00\n== date +%s\n{now}\n"


def test_a_run_of_today_without_a_problem_is_well() -> None:
    found = look(CHECK, rigops_state=state(ran(WELL)), boot=boot())
    assert (found.status, found.summary) == ("ok", "the self-check of 2026-11-24 found nothing")


def test_what_it_found_is_a_warning_that_names_it() -> None:
    found = look(CHECK, rigops_state=state(ran(LOST, LOST, LOST, WELL)), boot=boot())

    assert found.status == "warn"
    assert "found 3 problems: gpu.count (host): 2 of 3 cards; " in found.summary
    assert found.summary.endswith("; 1 more")


@pytest.mark.parametrize(
    ("status", "here"), [("fail", "warn"), ("unknown", "warn"), ("warn", "info")]
)
def test_what_it_only_warned_of_is_information(status: str, here: str) -> None:
    found = look(CHECK, rigops_state=state(ran({**LOST, "status": status})), boot=boot())
    assert found.status == here


@pytest.mark.parametrize(
    ("days", "uptime_s", "status"),
    [
        (1.4, 900_000, "ok"),
        (3, 900_000, "warn"),
        (3, 600, "ok"),
        (3, 10_000, "ok"),
        (3, 12_000, "warn"),
    ],
)
def test_a_run_that_is_days_old_is_a_warning_but_right_after_a_boot(
    days: float, uptime_s: int, status: str
) -> None:
    found = look(CHECK, rigops_state=state(ran(WELL)), boot=boot(days, uptime_s))
    assert found.status == status


@pytest.mark.parametrize("timer", ["inactive", "failed"])
def test_a_timer_that_is_not_active_is_a_warning(timer: str) -> None:
    found = look(CHECK, rigops_state=state(ran(WELL), timer), boot=boot())
    assert (found.status, found.summary) == ("warn", f"the timer is {timer}")


@pytest.mark.parametrize(
    ("text", "at", "status"),
    [(None, boot(), "info"), ("{", boot(), "unknown"), (ran(WELL), "", "unknown")],
)
def test_what_is_not_known_is_not_well(text: str | None, at: str, status: str) -> None:
    assert look(CHECK, rigops_state=state(text), boot=at).status == status


def test_where_it_is_not_declared_it_is_skipped_and_where_it_is_its_absence_is_a_warning() -> None:
    nothing = f"== {OWNED_FILES}\n"
    assert look(CHECK, rigops_state=nothing, boot=boot()).status == "skipped"

    found = look(CHECK, rigops_state=nothing, boot=boot(), declared=spec(notify="mail root"))
    assert (found.status, found.summary) == ("warn", "the timer is not installed")


def test_the_record_is_that_of_the_concern() -> None:
    assert record.PATH in {one.path for one in MONITORING.records}
