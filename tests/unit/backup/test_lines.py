"""What the host's program prints, as the controller reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigops.backup.btrfs_lines import ProgramAnswer, read_snapshots
from rigops.backup.engine import BackupError, Progress, judge_snapshots, newest_at
from rigops.errors import RigopsError


def heard(*lines: object) -> tuple[ProgramAnswer, list[Progress], list[str]]:
    progress: list[Progress] = []
    notices: list[str] = []
    answer = ProgramAnswer(progress.append, notices.append)
    for line in lines:
        answer.hear(line if isinstance(line, bytes) else json.dumps(line).encode())
    return answer, progress, notices


def test_progress_and_notices_come_as_they_are_printed() -> None:
    found = {"what": "sending \x1b[2J x", "done": 5, "total": None, "per_s": 2}
    answer, progress, notices = heard({"progress": found}, {"notice": "a\nb"}, {"result": {"x": 1}})

    assert progress == [Progress(what="sending [2J x", done=5, total=None, per_s=2.0)]
    assert notices == ["a b"]
    assert answer.result_or_raise("rig", b"") == {"x": 1}


@pytest.mark.parametrize(
    "line", [b"", b"\xff\x00", b"[1]", b"{", b"7", b'{"progress": {"what": 1}}', b'{"else": 1}']
)
def test_a_line_that_is_none_of_the_program_s_is_skipped(line: bytes) -> None:
    answer, progress, notices = heard(line, {"result": {}})

    assert (progress, notices, answer.result_or_raise("rig", b"")) == ([], [], {})


def test_an_error_without_a_result_is_raised_with_its_fix() -> None:
    answer, _, _ = heard({"error": {"message": "the disk is full", "fix": "remove files"}})

    with pytest.raises(BackupError, match="the disk is full") as raised:
        answer.result_or_raise("rig", b"")
    assert raised.value.fix == "remove files"


def test_a_fix_with_a_line_to_copy_comes_whole() -> None:
    fix = f"append this line: restrict {'A' * 600}"
    answer, _, _ = heard({"error": {"message": "refused", "fix": fix}})

    with pytest.raises(BackupError) as raised:
        answer.result_or_raise("rig", b"")
    assert raised.value.fix == fix


def test_errors_of_a_part_come_with_the_result() -> None:
    answer, _, _ = heard({"error": {"message": "one", "fix": ""}}, {"result": {"created": []}})

    found = answer.result_or_raise("rig", b"")
    assert found["errors"] == [{"message": "one", "fix": ""}]


def test_a_program_that_only_crashed_is_quoted() -> None:
    answer, _, _ = heard()

    with pytest.raises(BackupError, match="without a result: KeyError: 'x'"):
        answer.result_or_raise("rig", b"Traceback\nKeyError: 'x'\n")


def test_the_program_is_over_when_its_exit_code_is_known() -> None:
    answer, _, _ = heard({"result": {}})
    assert not answer.over.is_set()

    answer.hear(b'{"ended": 1}')
    assert (answer.over.is_set(), answer.ended) == (True, 1)


def document(**changes: Any) -> dict[str, Any]:
    snapshot = {
        "name": "20261125T060001Z-timer", "at": "2026-11-25T06:00:01Z", "kind": "timer",
        "engine": "btrfs", "places": [{"place": "local", "is_complete": True}], "bytes": 5,
        "reasons": ["newest"], "is_pruned_next": False,
    }  # fmt: skip
    home = {"path": "/home", "nested": [], "error": None, "snapshots": [{**snapshot, **changes}]}
    return {"subvolumes": [home], "targets": [], "foreign": []}


def test_the_list_of_a_host_is_typed() -> None:
    found = read_snapshots("rig", document())

    (home,) = found.subvolumes
    assert (home.path, home.snapshots[0].bytes, home.snapshots[0].reasons) == (
        "/home",
        5,
        ("newest",),
    )
    assert str(newest_at(found)["/home"]) == "2026-11-25 06:00:01+00:00"
    assert judge_snapshots(found) == "ok"


def test_a_torn_copy_is_no_backup_and_warns() -> None:
    found = read_snapshots("rig", document(places=[{"place": "local", "is_complete": False}]))

    assert newest_at(found) == {"/home": None}
    assert judge_snapshots(found) == "warn"


def test_a_partial_archive_is_no_backup_of_its_own_and_no_damage() -> None:
    found = read_snapshots("rig", document(kind="partial"))

    assert newest_at(found) == {"/home": None}
    assert judge_snapshots(found) == "ok"


def test_a_document_of_another_shape_is_an_error() -> None:
    with pytest.raises(RigopsError, match="gave an answer that cannot be read"):
        read_snapshots("rig", document(reasons=7))
