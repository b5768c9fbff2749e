from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from rigops.backup.utc import utc_text
from rigops.concerns.borg.host.archive_contents import ArchivedFile
from rigops.concerns.borg.host.borg_checking import judge_borg_state
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.host.sampling import choose_sample

NOW = datetime(2026, 11, 25, 6, tzinfo=timezone.utc)
SETTINGS = BorgSettings("rig", "/mnt/backup/borg", ("/home",))


def state(**changed: Any) -> dict[str, Any]:
    return {
        "newest_at": utc_text(NOW - timedelta(hours=3)),
        "repository": {"location": "/mnt/backup/borg", "state": "ok", "archives": 3},
        "last_drill": {"at": utc_text(NOW - timedelta(days=20)), "result": "ok"},
        "last_check": {"at": utc_text(NOW - timedelta(days=20)), "result": "ok"},
        **changed,
    }


def judge(**changed: Any) -> dict[str, str]:
    lines = judge_borg_state(SETTINGS, state(**changed), NOW, timedelta(days=1))
    return {check: status for status, check, _, _ in lines}


def ago(days: int) -> str:
    return utc_text(NOW - timedelta(days=days))


def repository(state: str, **more: Any) -> dict[str, Any]:
    return {"location": "/mnt/backup/borg", "state": state, "error": "why", **more}


def test_what_is_well_is_ok() -> None:
    assert set(judge().values()) == {"ok"}


@pytest.mark.parametrize(
    ("changed", "check", "status"),
    [
        ({"newest_at": None}, "borg.age", "fail"),
        ({"newest_at": ago(3)}, "borg.age", "warn"),
        ({"newest_at": ago(8)}, "borg.age", "warn"),
        ({"newest_at": ago(9)}, "borg.age", "fail"),
        ({"repository": {}}, "borg.repository", "fail"),
        ({"repository": repository("absent")}, "borg.repository", "warn"),
        ({"repository": repository("failed")}, "borg.repository", "fail"),
        ({"repository": repository("to be healed")}, "borg.repository", "warn"),
        ({"repository": repository("locked", lock={"age_s": 60})}, "borg.repository", "warn"),
        ({"repository": repository("locked", lock={"age_s": 90000})}, "borg.repository", "fail"),
        ({"last_drill": None}, "borg.drill", "warn"),
        ({"last_drill": {"at": ago(1), "result": "failed"}}, "borg.drill", "fail"),
        ({"last_drill": {"at": ago(1), "result": "to be healed"}}, "borg.drill", "warn"),
        ({"last_drill": {"at": ago(41), "result": "ok"}}, "borg.drill", "warn"),
        ({"last_check": {"at": ago(70), "result": "ok"}}, "borg.check", "warn"),
        ({"last_check": {"at": ago(1), "result": "failed"}}, "borg.check", "fail"),
    ],
)
def test_what_is_not_well_is_judged(changed: dict[str, Any], check: str, status: str) -> None:
    found = judge(**changed)

    assert found.pop(check) == status
    assert set(found.values()) == {"ok"}


def test_what_was_written_by_a_clock_ahead_is_not_well() -> None:
    ahead = {"at": ago(-1800), "result": "ok"}
    found = judge(newest_at=ago(-1800), last_drill=ahead, last_check=ahead)

    assert {found[f"borg.{one}"] for one in ("age", "drill", "check")} == {"warn"}


def test_what_pruning_held_back_is_a_warning() -> None:
    assert judge(held=["nothing is removed"])["borg.held"] == "warn"


@pytest.mark.parametrize(("schedule", "keep", "status"), [
    ("weekly", "7d", "ok"), ("daily", "7d", "warn"), ("", "", "warn"), ("Mon 03:00", "4w", "ok"),
])  # fmt: skip
def test_the_age_is_judged_by_the_schedule_and_a_boot_gives_time_to_catch_up(
    schedule: str, keep: str, status: str
) -> None:
    settings = SETTINGS._replace(schedule=schedule, keep=keep)
    old = state(newest_at=ago(3))

    for uptime, expected in ((None, status), (timedelta(hours=1), "ok")):
        assert next(iter(judge_borg_state(settings, old, NOW, uptime)))[0] == expected


def files(*sizes: int) -> list[ArchivedFile]:
    return [ArchivedFile(f"home/{number}", size) for number, size in enumerate(sizes)]


def test_a_sample_is_small_fits_and_is_the_same_for_the_same_archive() -> None:
    every = files(*range(1, 1000))

    first, again, other = (choose_sample(every, 10_000, seed) for seed in ("a", "a", "b"))

    assert first == again != other
    assert len(first.files) <= 40
    assert first.bytes <= 10_000
    assert choose_sample(files(5, 500), 100, "a").files == tuple(files(5))
