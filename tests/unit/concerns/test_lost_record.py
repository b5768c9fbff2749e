"""The record of a host that version 0.1 set up, lost or damaged, and rebuilt."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from rigops.concerns import registry
from rigops.concerns.concern import Concern
from rigops.concerns.lost_record import described, left, lost_record, with_rebuilt
from rigops.ownership.ownership import Ownership, previous_of
from rigops.probe.sections.rigops_state import RECORD, STATE, Present, RigopsState
from rigops.probe.sections.rigops_traces import Original, Trace
from tests import version_0_1

HOST = version_0_1.FOLDER / "host"
TEXT = (HOST / RECORD[1:]).read_text()
RECORDED = Ownership.parse(TEXT)
COMPANION = f"{STATE}/lines/etc-nccl.conf"
FILES: list[dict[str, Any]] = [
    one for one in version_0_1.load("manifest.json") if one["kind"] == "file"
]


def content(path: str) -> bytes:
    path = COMPANION if path == "/etc/nccl.conf" else path  # only the block counts
    return (HOST / path[1:]).read_bytes()


def trace(path: str, mode: str) -> Trace:
    return Trace(sha256(content(path)).hexdigest(), f"8{int(mode, 8):03x} 0:0", is_made=True)


TRACES = {one["path"]: trace(one["path"], one["mode"]) for one in FILES if STATE not in one["path"]}
ORIGINALS = tuple(
    Original(
        one["path"].rpartition("/")[2],
        sha256(content(one["path"])).hexdigest(),
        f"8{int(one['mode'], 8):03x} 0:0",
        changed=1000,
    )
    for one in FILES
    if "/previous/" in one["path"]
)
LOST = RigopsState(unrecorded=TRACES, originals=ORIGINALS)


def test_all_that_was_recorded_is_found_again_with_what_was_there_before() -> None:
    lost = lost_record(LOST)

    assert lost is not None
    assert (lost.loss, lost.left) == ("lost", ())
    assert lost.rebuilt.files == RECORDED.files
    assert f"rebuilt: {len(RECORDED.files)} files\n" in described(lost.rebuilt)


@pytest.mark.parametrize("cut", [5, 200, 1000, 2000, 3500])
def test_the_whole_entries_of_a_damaged_record_count_as_they_are(cut: int) -> None:
    text = TEXT[:-cut].replace('"concern": "acs"', '"concern": "kept"')

    lost = lost_record(replace(LOST, owned=text))

    assert lost is not None
    assert lost.loss == "damaged"
    assert lost.rebuilt.files.keys() == RECORDED.files.keys()
    whole = json.loads(text[: text.rindex("    },")] + "    }]}")["files"]
    found = {entry["path"]: entry["concern"] for entry in whole}
    found |= {path: "monitoring" for path in found if path.endswith("/notify")}
    assert {path: lost.rebuilt.files[path].concern for path in found} == found


@pytest.mark.parametrize("text", ["", "\0" * 40, "[]", "{}", '{"schema": "rigops.owned/1"}'])
def test_a_record_that_cannot_be_read_is_damaged_and_never_empty(text: str) -> None:
    assert with_rebuilt(replace(LOST, owned=text)).rebuilt == "damaged"
    assert with_rebuilt(RigopsState(owned=text)).rebuilt == "damaged"


def test_a_host_without_a_trace_has_lost_nothing_and_a_complete_record_stays() -> None:
    assert lost_record(RigopsState()) is None
    assert lost_record(RigopsState(owned=TEXT)) is None


def test_a_record_of_a_newer_rigops_is_not_a_damaged_one() -> None:
    newer = TEXT.replace("rigops.owned/1", "rigops.owned/2")

    assert lost_record(replace(LOST, owned=newer)) is None


def test_a_record_from_a_backup_gets_the_files_that_came_later() -> None:
    path = "/etc/modprobe.d/rigops-nvidia.conf"
    older = RECORDED.without(path)

    after = with_rebuilt(
        RigopsState(owned=older.to_json(), unrecorded={path: TRACES[path]}, originals=())
    )

    assert after.rebuilt == "incomplete"
    assert Ownership.from_state(after).files == RECORDED.files
    assert after.present == {path: Present(TRACES[path].digest, 0o644)}


def test_what_nothing_says_to_be_of_rigops_is_left_and_named() -> None:
    path = "/usr/local/libexec/rigops/mine"
    unknown = {path: Trace("0" * 64, "81ed 0:0", is_made=False)}
    state = RigopsState(owned=TEXT, unrecorded=unknown)

    assert with_rebuilt(state) == state
    assert left(state, RECORDED) == (path,)


def test_the_first_copy_counts_and_none_that_was_made_of_another_path() -> None:
    path = "/etc/security/limits.d/90-rigops.conf"
    found = [Present(digest * 64, 0o600) for digest in "abc"]
    names = [previous_of(path, one).name for one in found]
    copies = tuple(
        Original(name, one.digest, "8180 0:0", changed)
        for name, one, changed in zip(
            [*names[:2], "90-rigops.conf.0123456789abcdef"], found, (30, 20, 10), strict=True
        )
    )

    lost = lost_record(RigopsState(unrecorded={path: TRACES[path]}, originals=copies))

    assert lost is not None
    previous = lost.rebuilt.files[path].previous
    assert previous is not None
    assert (previous.name, previous.digest, previous.mode) == (names[1], "b" * 64, 0o600)


def test_a_file_is_whose_concern_says_that_it_writes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/etc/systemd/system/rigops-toy.service"
    state = RigopsState(unrecorded={path: Trace("0" * 64, "81a4 0:0", is_made=True)})
    lost = lost_record(state)
    assert lost is not None
    assert lost.left == (path,)

    toy = Concern(name="toy", keys=(), writes=("*/rigops-toy.service",))
    monkeypatch.setattr(registry, "CONCERNS", [*registry.CONCERNS, toy])

    lost = lost_record(state)
    assert lost is not None
    assert lost.rebuilt.files[path].concern == "toy"
