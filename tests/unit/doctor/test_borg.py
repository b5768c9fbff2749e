"""The backups of a host, as doctor sees them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Final

import pytest

from rigops.concerns.borg import record
from rigops.concerns.borg.record import ExportedKey
from rigops.probe.sections.rigops_state import OWNED_FILES, OWNED_UNITS
from tests.unit.doctor.examining import look, spec

TIMER: Final = "rigops-borg.timer"
NOON: Final = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
ID: Final = "0f" * 32
PLACE: Final = "/mnt/backup/rig"
_BORG: Final = {"repository": PLACE, "paths": ["/home"], "passphrase_command": "pass show rig"}
DECLARED: Final = spec(borg=_BORG)
WATCHED: Final = spec(borg={"managed": False, "unit": "borgmatic.timer"})
TIMED: Final = spec(borg={"managed": False, "unit": "borgmatic.timer", "newest": "x"})
CHECKS: Final = ("borg.age", "borg.repository", "borg.key", "borg.drill", "borg.lock", "borg.held")


def ran(**changed: Any) -> str:
    repository = {
        "id": ID, "location": PLACE, "state": "ok", "error": "", "fix": "", "borg": "1.2.4",
        "last_borg": "1.2.4", "archives": 3, "seen_archives": [], "free_bytes": 10, "lock": None,
        **changed.pop("repository", {}),
    }  # fmt: skip
    document = {
        "schema": record.SCHEMA,
        "at": "2026-11-25T06:00:10Z",
        "repository": repository,
        "newest_at": "2026-11-25T06:00:00Z",
        "last_check": {"at": "2026-11-20T06:00:00Z", "result": "ok"},
        "last_drill": {"at": "2026-11-01T06:00:00Z", "result": "ok", "files": 20, "error": ""},
        "last_compact_at": None,
        **changed,
    }
    return json.dumps(document)


def state(text: str | None, timer: str = "active", key: str | None = ID) -> str:
    written = f"== {record.PATH}\n{text}\n" if text is not None else ""
    if key is not None:
        note = ExportedKey(repository=key, exported_at="2026-11-02T06:00:00Z").to_json()
        written += f"== {record.KEY_PATH}\n{note}\n"
    unit = f"Id={TIMER}\nActiveState={timer}\nUnitFileState=enabled\nDropInPaths=\n"
    return f"{written}== {OWNED_FILES}\n== {OWNED_UNITS}\n{unit if timer else ''}"


def boot(days: float = 0, uptime_s: int = 90_000) -> str:
    now = int(NOON.timestamp() + days * 86400)
    return f"== /proc/uptime\n{uptime_s}.00 1.00\n== date +%s\n{now}\n"


def units(result: str = "success", at: str = "Wed 2026-11-25 03:00:00 UTC", more: str = "") -> str:
    return (
        f"== date +%s\n{int(NOON.timestamp())}\n== systemctl show\nId=borgmatic.timer\n"
        f"LoadState=loaded\nLastTriggerUSec={at}\nResult=success\n\nId=borgmatic.service\n"
        f"LoadState=loaded\nResult={result}\nExecMainExitTimestamp={at}\n{more}"
    )


def found(
    check: str,
    text: str | None,
    declared: Any = DECLARED,
    *,
    at: str | None = None,
    **state_of: Any,
) -> tuple[str, str]:
    one = look(
        check, declared, rigops_state=state(text, **state_of), boot=boot() if at is None else at,
        backups=units(),
    )  # fmt: skip
    return one.status, one.summary


def watched(backups: str, declared: Any = WATCHED) -> tuple[str, str]:
    one = look("borg.age", declared, rigops_state=state(None), boot=boot(), backups=backups)
    return one.status, one.summary


@pytest.mark.parametrize("text", [None, "{"])
def test_a_timer_that_does_not_run_is_said_before_the_first_run_too(text: str | None) -> None:
    one = look("borg.age", DECLARED, rigops_state=state(text, "inactive"), boot=boot())

    assert (one.status, one.summary) == ("fail", "the timer is inactive")
    assert one.fix is not None
    assert "`rigops apply`" in one.fix.text


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_declaration_there_is_nothing_to_judge(check: str) -> None:
    assert found(check, ran(), spec(gpus=2)) == ("skipped", "borg is not declared")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("given", [None, "", "== /var"])
def test_what_was_not_collected_is_unknown(check: str, given: str | None) -> None:
    one = look(check, DECLARED, rigops_state=given, boot=boot(), backups=units())

    assert one.status == "unknown"


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("text", ["", "[]", '{"schema": "rigops.borg_state/1"}'])
def test_a_record_that_cannot_be_read_is_unknown(check: str, text: str) -> None:
    assert found(check, text)[0] == "unknown"


def test_before_the_first_run_the_age_alone_says_what_is_missing() -> None:
    other = spec(borg={**_BORG, "repository": "/mnt/new"})
    why = "no backup to /mnt/new yet: no run since it was declared"
    for check in CHECKS:
        is_age = check == "borg.age"
        assert found(check, None)[0] == ("info" if is_age else "skipped"), check
        assert found(check, None, timer="")[0] == ("warn" if is_age else "skipped"), check
        said = ("warn", why) if is_age else ("skipped", f"nothing to judge: {why}")
        assert found(check, ran(), other) == said, check


@pytest.mark.parametrize("check", CHECKS)
def test_a_host_that_is_well_is_ok(check: str) -> None:
    assert found(check, ran())[0] == "ok"


def test_what_pruning_held_back_is_a_warning_with_the_reason() -> None:
    why = "nothing is removed while a declared path is missing: /home"

    assert found("borg.held", ran(held=[why])) == ("warn", why)


def test_a_timer_that_does_not_run_and_a_repository_without_archives_fail() -> None:
    assert found("borg.age", ran(), timer="inactive") == ("fail", "the timer is inactive")
    assert found("borg.age", ran(newest_at=None)) == ("fail", "there is no backup")


@pytest.mark.parametrize(
    "at", ["", "== date +%s\n999999999999\n", f"{boot()}\n".replace("90000", "9" * 99)]
)
@pytest.mark.parametrize("check", ["borg.age", "borg.repository", "borg.drill", "borg.lock"])
def test_without_a_clock_of_the_host_it_is_unknown(check: str, at: str) -> None:
    lock = {"host": "nas", "pid": 7, "age_s": 600}

    assert found(check, ran(repository={"lock": lock}), at=at)[0] == "unknown"


def test_what_failed_is_named_with_its_reason_and_what_to_do() -> None:
    found_then = {"at": "2026-11-20T06:00:00Z", "result": "failed", "error": "why"}
    lock = {"state": "locked", "lock": {"host": "nas", "pid": 7, "age_s": 90_000}}

    assert found("borg.repository", ran(last_check=found_then)) == (
        "fail",
        f"{PLACE}: the check of 2026-11-20 failed: why",
    )
    assert found("borg.drill", ran(last_drill=found_then)) == (
        "fail",
        "the drill of 2026-11-20 failed: why",
    )
    held = look("borg.lock", DECLARED, rigops_state=state(ran(repository=lock)), boot=boot())
    assert held.summary == "locked by nas (pid 7) for 30 h"
    assert held.fix is not None
    assert "see on nas that no borg runs" in held.fix.text
    assert f"sudo borg break-lock {PLACE}" in held.fix.text


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ("ok", "ok"), ("locked", "ok"), ("absent", "warn"), ("unreachable", "warn"),
        ("to be healed", "warn"), ("failed", "fail"), ("dancing", "unknown"),
    ],
)  # fmt: skip
def test_the_repository_is_judged_by_its_state(known: str, status: str) -> None:
    one = look(
        "borg.repository", DECLARED, boot=boot(), backups=units(),
        rigops_state=state(ran(repository={"state": known, "error": "why", "fix": "do this"})),
    )  # fmt: skip

    assert one.status == status
    if status in {"warn", "fail"}:
        assert "why" in one.summary
        assert one.fix is not None
        assert one.fix.text == "do this"


def test_a_key_that_was_never_exported_or_is_of_another_repository_fails() -> None:
    assert found("borg.key", ran(), key=None) == (
        "fail",
        "the key of the repository was never exported",
    )
    assert found("borg.key", ran(), key="0e" * 32)[0] == "fail"
    assert found("borg.key", ran(repository={"id": ""}), key=None)[0] == "info"


def test_a_key_that_apply_exports_is_not_counted_as_to_be_done_by_hand() -> None:
    text = state(ran(), key=None)
    one = look("borg.key", DECLARED, concerns=frozenset({"borg"}), rigops_state=text, boot=boot())

    assert one.fix is not None
    assert one.fix.by_apply


def test_a_backup_of_others_is_judged_by_its_unit_or_by_its_own_command() -> None:
    assert watched(units()) == ("ok", "the last run is 9 h old")
    assert watched(units(at="Sun 2026-11-22 03:00:00 UTC"))[0] == "warn"
    assert watched(units(at="Sun 2026-11-01 03:00:00 UTC"))[0] == "fail"
    assert watched(units(result="exit-code")) == ("fail", "the last run failed: exit-code")
    assert watched(units(at="n/a"))[0] == "info"
    newest = "== newest backup\n2026-11-25T10:00:00Z\n"
    assert watched(units(more=newest), TIMED) == ("ok", "the newest backup is 2 h old")
    assert watched(units(), TIMED)[0] == "unknown"


def test_a_unit_of_others_that_is_not_there_fails() -> None:
    assert watched("== date +%s\n1\n== systemctl show\n")[0] == "fail"
    assert watched("")[0] == "unknown"


@pytest.mark.parametrize("check", CHECKS[1:])
def test_of_a_backup_of_others_nothing_else_is_judged(check: str) -> None:
    assert found(check, None, WATCHED) == (
        "skipped",
        "the backup of borgmatic.timer is not managed by rigops",
    )
