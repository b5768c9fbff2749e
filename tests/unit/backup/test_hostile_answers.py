"""What a host's backup program prints may have any shape: it is read, or that host's error."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.backup.borg_lines import read_backup, read_drill
from rigops.backup.btrfs_lines import ProgramAnswer, read_snapshots
from rigops.backup.engine import BackupError, Progress, judge_snapshots
from rigops.backup.root_change import read_root_change
from rigops.report import snapshots as report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.backup.answer_shape import ProgramResult

NOW: Final = datetime(2026, 1, 31, 18, tzinfo=timezone.utc)
UNREADABLE: Final = "the backup program on rig gave an answer that cannot be read"
_AT: Final = "2026-01-31T17:00:00Z"
_PLACES: Final = [{"place": "here", "is_complete": True}]


def _no_more(_: object) -> None: ...


def _backup(found: ProgramResult) -> None:
    for document in (found, read_backup(found)):
        report.backup_lines("rig", document, 80, dry_run=False)


def _restore(found: ProgramResult) -> None:
    restored = found.get("restored")
    document = restored or found
    report.restored_lines("rig", document, 80, dry_run=False)
    report.question_text("rig", document)


def _list(found: ProgramResult) -> None:
    host = read_snapshots("rig", found)
    judge_snapshots(host)
    report.snapshots_lines("rig", "ok", host, NOW, 80, verbose=True)


# Each result, and what is made of it.
RESULTS: Final[dict[str, tuple[dict[str, Any], Callable[[ProgramResult], object]]]] = {
    "backup": (
        {
            "created": [{"path": "/home", "name": "a", "bytes": 5}],
            "pruned": [{"path": "/home", "name": "b", "place": "here"}],
            "sent": [{"path": "/home", "name": "a", "parent": "b", "bytes": 7}],
            "target": {"name": "disk", "state": "absent"},
            "errors": [{"message": "m", "fix": "f"}],
        },
        _backup,
    ),
    "drill": (
        {
            "drill": {
                "result": "ok",
                "archive": "a",
                "files": 3,
                "older": {"result": "ok", "archive": "b", "files": 2},
            },
            "errors": [{"message": "m", "fix": "f"}],
        },
        lambda found: report.drill_lines("rig", read_drill(found), 80),
    ),
    "restore": (
        {
            "restored": {
                "at": _AT, "place": "here", "bytes": 7, "kind": "file", "aside": "/a",
                "restored_to": "/b", "engine": "borg", "snapshot": "s", "to_do": "x",
            }
        },
        _restore,
    ),
    "heal": (
        {"healed": ["a"], "to_heal": ["b"]},
        lambda found: report.heal_lines("rig", found, 80),
    ),
    "list": (
        {
            "subvolumes": [
                {
                    "path": "/home",
                    "nested": ["/home/a"],
                    "error": {"message": "m", "fix": "f"},
                    "snapshots": [
                        {
                            "name": "a", "at": _AT, "kind": "timer", "engine": "btrfs",
                            "places": _PLACES, "bytes": 5, "reasons": ["hourly"],
                            "is_pruned_next": True,
                        }
                    ],
                }
            ],
            "targets": [
                {
                    "name": "disk", "state": "present", "newest_at": _AT, "free_bytes": 5,
                    "size_bytes": 9, "error": "e",
                }
            ],
            "foreign": [{"tool": "snapper", "where": "/etc"}],
        },
        _list,
    ),
    "rollback": (
        {
            "rollback": {
                "snapshot": "s", "at": _AT, "root": "/r", "aside": "/a", "kernel": "6.1",
                "nested": ["/x"], "notices": ["n"],
                "newer": {
                    "files": 3, "examples": ["/etc/a"],
                    "folders": [{"path": "/etc", "files": 3}],
                },
            }
        },
        lambda found: read_root_change("rig", found),
    ),
}  # fmt: skip

JUNK: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -1, float("inf"), float("nan"), "9999-12-31T23:59:59+99:99"]),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.none()), max_size=2),
    st.dictionaries(st.sampled_from(["name", "path", "message", "at"]), st.integers(), max_size=2),
)


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from _nodes(one, (*path, key))


def _changed(document: dict[str, Any], path: tuple[Any, ...], junk: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    inside: Any = changed
    for key in path[:-1]:
        inside = inside[key]
    if junk is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = junk
    return changed


def _read(name: str, document: dict[str, Any]) -> None:
    answer = ProgramAnswer(_no_more, _no_more)
    answer.hear(json.dumps({"result": document}).encode())
    RESULTS[name][1](answer.result_or_raise("rig", b""))


@pytest.mark.parametrize("name", RESULTS)
def test_what_programs_print_is_read(name: str) -> None:
    _read(name, RESULTS[name][0])


@pytest.mark.parametrize("name", RESULTS)
@given(data=st.data())
def test_a_wrong_shape_anywhere_is_that_hosts_error(name: str, data: st.DataObject) -> None:
    document = RESULTS[name][0]
    path = data.draw(st.sampled_from([one for one in _nodes(document) if one]))
    junk = data.draw(st.one_of(st.just(...), JUNK))
    try:
        _read(name, _changed(document, path, junk))
    except BackupError as error:
        assert error.message == UNREADABLE  # noqa: PT017 - most shapes are read


def test_a_number_for_a_list_is_no_bug_of_rigops() -> None:
    with pytest.raises(BackupError, match=UNREADABLE):
        _read("backup", {"created": 5})


@given(found=st.fixed_dictionaries({
    "what": st.one_of(JUNK, st.just("x")), "done": JUNK, "total": JUNK, "per_s": JUNK,
}))  # fmt: skip
def test_progress_of_any_shape_is_shown_or_skipped(found: dict[str, Any]) -> None:
    def shown(progress: Progress) -> None:
        report.progress_text(progress)

    ProgramAnswer(shown, _no_more).hear(json.dumps({"progress": found}).encode())
