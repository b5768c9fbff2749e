"""The snapshots of a host, as doctor sees them: their age, where they are sent, what they lack."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Final

import pytest

from rigops.concerns.snapshots import record
from rigops.probe.sections.rigops_state import OWNED_FILES, OWNED_UNITS
from tests.unit.doctor.examining import look, spec

TIMER: Final = "rigops-snapshots.timer"
NOON: Final = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
DISK: Final = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
DECLARED: Final = spec(snapshots={"subvolumes": ["/", "/home"], "keep": "24h 7d"})
HOURLY: Final = spec(snapshots={"subvolumes": ["/home"], "keep": "24h 7d"})
SENT: Final = spec(snapshots={"subvolumes": ["/"], "keep": "7d", "send_to": DISK})
CHECKS: Final = ("snap.age", "snap.target", "snap.nested", "snap.held")


def ran(**changed: Any) -> str:
    document = {
        "schema": record.SCHEMA,
        "at": "2026-11-25T11:00:10Z",
        "subvolumes": {
            "/": {"newest_at": "2026-11-25T11:00:00Z", "error": None},
            "/home": {"newest_at": "2026-11-25T11:00:00Z", "error": ""},
        },
        "target": None,
        "nested": {},
        "scrub": {},
        **changed,
    }
    return json.dumps(document)


def target(state: str, seen_at: str | None = "2026-11-25T11:00:00Z", error: str = "") -> Any:
    return {
        "name": DISK,
        "state": state,
        "newest_at": {"/": "2026-11-25T00:00:00Z"} if state == "present" else {},
        "seen_at": seen_at,
        "error": error,
        "free_bytes": 10,
    }


def state(text: str | None, timer: str = "active") -> str:
    written = f"== {record.PATH}\n{text}\n" if text is not None else ""
    unit = f"Id={TIMER}\nActiveState={timer}\nUnitFileState=enabled\nDropInPaths=\n"
    return f"{written}== {OWNED_FILES}\n== {OWNED_UNITS}\n{unit if timer else ''}"


def boot(hours: float = 0, uptime_s: int = 90_000) -> str:
    now = int(NOON.timestamp() + hours * 3600)
    return f"== /proc/uptime\n{uptime_s}.00 1.00\n== date +%s\n{now}\n"


def found(
    check: str,
    text: str | None,
    declared: Any = SENT,
    *,
    at: str | None = None,
    rigops_state: str | None = None,
) -> tuple[str, str]:
    there = state(text) if rigops_state is None else rigops_state
    one = look(check, declared, rigops_state=there, boot=boot() if at is None else at)
    return one.status, one.summary


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_declaration_there_is_nothing_to_judge(check: str) -> None:
    assert found(check, ran(), spec(gpus=2))[0] == "skipped"


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("given", [None, "", "== /var"])
def test_what_was_not_collected_is_unknown(check: str, given: str | None) -> None:
    one = look(check, SENT, rigops_state=given, boot=boot())

    assert one.status == "unknown"


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("text", ["", "[]", '{"schema": "rigops.snapshots_state/1"}'])
def test_a_record_that_cannot_be_read_is_unknown(check: str, text: str) -> None:
    assert found(check, text, SENT)[0] == "unknown"


def test_before_the_first_apply_and_before_the_first_run_the_age_alone_says_it() -> None:
    for check in CHECKS:
        before_run, before_apply = (
            found(check, None, SENT, rigops_state=state(None, timer))[0] for timer in ("active", "")
        )
        expected = ("info", "warn") if check == "snap.age" else ("skipped", "skipped")
        assert (before_run, before_apply) == expected, check


def test_what_apply_sets_up_is_said_once_and_not_left_to_a_person() -> None:
    own = frozenset({"snapshots"})
    texts: dict[str, Any] = {"rigops_state": state(None, ""), "boot": boot()}
    every = [look(one, SENT, concerns=own, **texts) for one in CHECKS]

    fixes = [(one.id, one.fix.kind, one.fix.is_declared) for one in every if one.fix]
    assert fixes == [("snap.age", "apply", True)]


@pytest.mark.parametrize("timer", ["", "active"])
def test_before_the_first_run_what_is_on_no_btrfs_is_named_with_a_fix_that_can_be_done(
    timer: str,
) -> None:
    mounts = "== /proc/self/mounts\n/dev/sda1 / ext4 rw 0 0\n/dev/sdb /home btrfs rw 0 0\n"

    one = look("snap.age", DECLARED, rigops_state=state(None, timer), boot=boot(), storage=mounts)

    assert (one.status, one.subject) == ("warn", "/")
    assert one.summary == "is on ext4, and only btrfs has snapshots"
    assert one.fix
    assert one.fix.kind == "hands"
    assert one.fix.text == "remove it from subvolumes; `borg` backs up any file system"


def test_what_pruning_held_back_is_a_warning_with_the_reason() -> None:
    why = "nothing is removed while a declared path is missing: /home"

    assert found("snap.held", ran(held=[why]), HOURLY) == ("warn", why)
    assert found("snap.held", ran(held=[]), HOURLY)[0] == "ok"


@pytest.mark.parametrize(("keep", "hours", "status"), [
    (None, 46, "ok"), (None, 48, "fail"), ("7d", 46, "ok"), ("7d", 48, "fail"),
    ("2y", 24 * 365, "ok"), ("6m", 24 * 61, "ok"),
])  # fmt: skip
def test_the_age_that_fails_is_twice_what_the_timer_waits(
    keep: str | None, hours: float, status: str
) -> None:
    declared = {"subvolumes": ["/"], **({"keep": keep} if keep else {})}

    assert found("snap.age", ran(), spec(snapshots=declared), at=boot(hours))[0] == status


@pytest.mark.parametrize(
    ("one", "status", "words"),
    [
        (
            {"newest_at": "2026-11-25T11:00:00Z", "error": "disk full"},
            "fail",
            "disk full",
        ),
        ({"newest_at": None, "error": ""}, "fail", "there is no snapshot"),
    ],
)
def test_a_run_that_took_none_fails_with_its_reason(
    one: dict[str, Any], status: str, words: str
) -> None:
    there, summary = found("snap.age", ran(subvolumes={"/": one}), SENT)

    assert (there, words in summary) == (status, True)


def test_a_target_lacks_what_no_run_could_take() -> None:
    one = {"newest_at": None, "error": "/ does not exist"}
    noted = ran(subvolumes={"/": one}, target={**target("present"), "newest_at": {}})

    assert found("snap.target", noted) == (
        "warn",
        f"{DISK} has no snapshot of /: the last run could take none",
    )


@pytest.mark.parametrize("timer", ["inactive", "failed", ""])
def test_without_its_timer_it_fails(timer: str) -> None:
    assert found("snap.age", None, rigops_state=state(ran(), timer))[0] == "fail"


def test_without_the_clock_of_the_host_age_and_absence_are_unknown() -> None:
    assert found("snap.age", ran(), at="")[0] == "unknown"
    assert found("snap.target", ran(target=target("absent")), at="")[0] == "unknown"


def test_snapshots_that_are_sent_nowhere_are_no_fault() -> None:
    assert found("snap.target", ran(), HOURLY)[0] == "skipped"


def test_subvolumes_that_a_snapshot_lacks_are_named() -> None:
    inside = ["var/lib/docker/btrfs/subvolumes/0a1b", "home", "srv"]

    status, summary = found("snap.nested", ran(nested={"/": inside}), DECLARED)
    assert status == "info"
    assert "inside: var/lib/docker/btrfs/subvolumes/0a1b, srv" in summary
    assert "docker" in summary
    assert found("snap.nested", ran(nested={"/": ["home"]}), DECLARED)[0] == "ok"
