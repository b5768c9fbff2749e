from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.errors import RigopsError
from rigops.ownership.ownership import InPlace, OwnedFile, Ownership, Previous, Show, Undo, Write
from rigops.probe.sections.rigops_state import RECORD, RigopsState
from rigops.probe.sections.rigops_traces import Trace
from tests.unit.ownership.simulated import digest_of

NEW = OwnedFile(
    path="/etc/modprobe.d/rigops.conf",
    concern="nvidia_driver",
    digest=digest_of("new"),
    mode=0o644,
)
REPLACED = OwnedFile(
    path="/etc/nccl.conf",
    concern="gpu_tuning",
    digest=digest_of("ours"),
    mode=0o600,
    previous=Previous("nccl.conf.0123456789abcdef", digest_of("theirs"), 0o4755),
    replaces=digest_of("ours before"),
)
OWNERSHIP = Ownership({file.path: file for file in (NEW, REPLACED)})


def test_what_is_written_is_read_back() -> None:
    assert Ownership.parse(OWNERSHIP.to_json()) == OWNERSHIP
    assert Ownership.parse(Ownership().to_json()) == Ownership()


def test_the_record_is_the_same_in_whichever_order_files_came() -> None:
    other = Ownership({file.path: file for file in (REPLACED, NEW)})
    assert other.to_json() == OWNERSHIP.to_json()


def test_fields_of_a_later_rigops_are_passed_over() -> None:
    document = json.loads(OWNERSHIP.to_json())
    document["mood"] = document["files"][0]["mood"] = "fine"
    assert Ownership.parse(json.dumps(document)) == OWNERSHIP


@pytest.mark.parametrize("length", [0, 1, 40, 400])
def test_a_record_that_is_cut_short_is_never_an_empty_one(length: int) -> None:
    with pytest.raises(RigopsError, match="damaged or incomplete") as caught:
        Ownership.parse(OWNERSHIP.to_json()[:length])
    assert "from a backup" in caught.value.problems[0].fix


def test_a_record_of_a_newer_rigops_is_refused() -> None:
    with pytest.raises(RigopsError, match="newer rigops") as caught:
        Ownership.parse('{"schema": "rigops.owned/2", "files": []}')
    assert "upgrade rigops" in caught.value.problems[0].fix


def test_files_that_rigops_made_and_no_record_names_are_refused_with_their_names() -> None:
    made = {path: Trace("81a4 0:0", is_made=True) for path in ("/etc/a", "/etc/nccl.conf")}
    for owned, loss in ((None, "is lost; it named"), (OWNERSHIP.to_json(), "does not name")):
        with pytest.raises(RigopsError) as caught:
            Ownership.from_state(RigopsState(owned=owned, unrecorded=made))
        (problem,) = caught.value.problems
        assert problem.message == f"{RECORD} {loss} what rigops wrote: /etc/a, /etc/nccl.conf"
        assert RECORD in problem.fix
        assert "remove these files" in problem.fix


def test_what_nothing_says_to_be_of_rigops_is_no_lost_record() -> None:
    others = {"/etc/rigops/borg_key": Trace("8180 0:0", is_made=False)}
    assert Ownership.from_state(RigopsState(unrecorded=others)) == Ownership()


def test_a_copy_beside_an_owned_file_makes_no_record_incomplete() -> None:
    path = next(iter(OWNERSHIP.files))
    for copy in (f"{path}.bak", f"{path}~"):
        state = RigopsState(
            owned=OWNERSHIP.to_json(), unrecorded={copy: Trace("81a4 0:0", is_made=True)}
        )
        assert Ownership.from_state(state) == OWNERSHIP


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "etc/nccl.conf"),
        ("path", "/etc/../root/.ssh/authorized_keys"),
        ("path", "/etc//nccl.conf"),
        ("path", "//etc/nccl.conf"),
        ("path", "/etc/nccl.conf/"),
        ("path", "/etc/./nccl.conf"),
        ("path", "/etc/nccl\n.conf"),
        ("path", "/"),
        ("path", ""),
        ("concern", None),
        ("digest", "abc"),
        ("digest", 5),
        ("mode", 420),
        ("mode", "rw-r--r--"),
        ("replaces", "abc"),
        ("previous", "nccl.conf"),
        ("previous", {"name": "nccl.conf", "digest": "abc", "mode": "0644"}),
        ("previous", {"name": "../nccl.conf", "digest": digest_of("x"), "mode": "0644"}),
        ("previous", {"name": "..", "digest": digest_of("x"), "mode": "0644"}),
        ("previous", {"name": "", "digest": digest_of("x"), "mode": "0644"}),
    ],
)
def test_a_wrong_entry_is_refused(field: str, value: object) -> None:
    document = json.loads(Ownership({NEW.path: NEW}).to_json())
    document["files"][0][field] = value
    with pytest.raises(RigopsError):
        Ownership.parse(json.dumps(document))


@pytest.mark.parametrize("document", [{"schema": "rigops.owned/1"}, [], None, {"files": []}])
def test_a_document_of_another_kind_is_refused(document: object) -> None:
    with pytest.raises(RigopsError):
        Ownership.parse(json.dumps(document))


def test_a_path_that_is_listed_twice_is_refused() -> None:
    document = json.loads(OWNERSHIP.to_json())
    document["files"].append(document["files"][0])
    with pytest.raises(RigopsError, match="listed once"):
        Ownership.parse(json.dumps(document))


def test_the_record_follows_the_steps() -> None:
    written = Ownership().after(Write(NEW, before=None, backup=None))
    assert written == Ownership({NEW.path: NEW})
    assert written.after(Undo(NEW)) == Ownership()
    assert written.after(InPlace()) == written
    assert written.after(Show(NEW)) == written
    assert written.without(NEW.path) == Ownership()


def test_the_owner_of_an_earlier_content_is_recorded_where_it_is_not_root() -> None:
    of_rig = replace(NEW, previous=Previous("thing.conf.0", digest_of("x"), 0o644, "1000:1000"))
    of_root = replace(NEW, previous=Previous("thing.conf.0", digest_of("x"), 0o644))

    for owned in (of_rig, of_root):
        record = Ownership({owned.path: owned})
        assert Ownership.parse(record.to_json()) == record
    assert "owner" not in Ownership({NEW.path: of_root}).to_json()  # as version 0.1 wrote it


def test_an_owner_that_is_none_is_refused() -> None:
    wrong = replace(NEW, previous=Previous("thing.conf.0", digest_of("x"), 0o644, "rig"))

    with pytest.raises(RigopsError, match="owner"):
        Ownership.parse(Ownership({NEW.path: wrong}).to_json())
