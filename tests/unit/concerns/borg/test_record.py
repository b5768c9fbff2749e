"""The state that the host's program writes, and the note of the key."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from rigops.concerns.borg.record import (
    ExportedKey,
    Outcome,
    RepositoryLock,
    parse,
    parse_key,
    waiting,
)
from rigops.errors import RigopsError

WHOLE: Final[dict[str, Any]] = {
    "schema": "rigops.borg_state/1",
    "at": "2026-11-25T06:00:01Z",
    "repository": {
        "id": "0f" * 32, "location": "/b/rig", "state": "ok", "error": None, "fix": None,
        "borg": "1.2.4", "last_borg": "1.2.4", "archives": 3, "seen_archives": ["a", "b", "c"],
        "free_bytes": 10**9, "lock": {"host": "nas", "pid": 7, "age_s": 90.5},
    },
    "newest_at": "2026-11-25T06:00:00Z",
    "last_check": {"at": "2026-11-20T06:00:00Z", "result": "ok"},
    "last_drill": {
        "at": "2026-11-01T06:00:00Z", "result": "differs", "files": 20, "error": "/home/a differs",
    },
    "last_compact_at": None,
}  # fmt: skip


def test_all_of_it_is_read() -> None:
    found = parse(json.dumps(WHOLE))

    assert found.repository.lock == RepositoryLock(host="nas", pid=7, age_s=90.5)
    assert (found.repository.archives, found.repository.error) == (3, "")
    assert found.last_check == Outcome(at="2026-11-20T06:00:00Z", result="ok")
    assert found.last_drill is not None
    assert (found.last_drill.is_ok, found.last_drill.files) == (False, 20)


def test_of_a_repository_that_was_never_opened_little_is_known() -> None:
    repository = {"location": "ssh://nas/rig", "state": "unreachable", "error": "refused"}
    short = {**{name: WHOLE[name] for name in ("schema", "at")}, "repository": repository}

    found = parse(json.dumps({**short, "last_drill": {"at": None}}))

    assert (found.repository.id, found.newest_at, found.last_drill) == ("", None, None)


@pytest.mark.parametrize("text", ["", "{}", json.dumps({**WHOLE, "at": "yesterday"})])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(RigopsError):
        parse(text)


def test_the_note_of_the_key_comes_back_as_it_was() -> None:
    note = ExportedKey(repository="0f" * 32, exported_at="2026-11-25T06:00:00Z")

    assert parse_key(note.to_json()) == note


def test_of_a_server_that_waits_for_access_it_is_noted_why() -> None:
    found = parse(waiting("ssh://nas/rig", "refused. fix: do it", "2026-11-25T06:00:00Z"))

    assert (found.repository.state, found.repository.error) == ("unreachable", "refused")
    assert found.repository.fix == "do it"
    assert not found.repository.id
