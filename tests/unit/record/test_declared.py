"""What a host remembers of its inventory."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.json_fields import readable
from rigops.probe.sections.rigops_state import STATE
from rigops.record import declared
from rigops.record.declared import Author, DeclaredKeys

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

AT = "2026-11-23T14:00:00Z"


def test_what_is_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_WRITE", declared._WRITE.replace(STATE, str(tmp_path)))
    keys = {"driver": "535", "kernel_args": ("iommu=pt", "a='b c'"), "gpus": {"é": 2}}
    wanted = DeclaredKeys.from_keys(AT, keys)

    subprocess.run(wanted.writing(), check=True)

    found = readable(DeclaredKeys.from_json, (tmp_path / "declared.json").read_text())
    assert found == wanted
    assert found.keys == {**keys, "kernel_args": ["iommu=pt", "a='b c'"]}
    assert [one.name for one in tmp_path.iterdir()] == ["declared.json"]


def test_a_record_that_cannot_be_read_is_none() -> None:
    whole = DeclaredKeys.from_keys(AT, {"driver": "535"}).to_json()

    assert readable(DeclaredKeys.from_json, None) is None
    for damaged in ("", whole[:-5], whole.replace("declared/1", "declared/2"), '{"keys": []}'):
        assert readable(DeclaredKeys.from_json, damaged) is None


def test_what_worked_last_is_what_one_goes_back_to() -> None:
    first = replace(DeclaredKeys.from_keys(AT, {"driver": "535"}), has_worked=True)
    bad = DeclaredKeys.from_keys(AT, {"driver": "545"}, first)
    better = DeclaredKeys.from_keys(AT, {"driver": "550"}, bad)

    assert bad.before == better.before == {"driver": "535"}
    assert readable(DeclaredKeys.from_json, better.to_json()) == better


def test_what_is_recorded_in_part_is_nothing_to_go_back_to() -> None:
    first = replace(DeclaredKeys.from_keys(AT, {"driver": "535"}), has_worked=True)
    parts = {"borg": {"paths": ["/etc"]}}
    now = DeclaredKeys.from_keys(AT, {"driver": "535"}, first, parts=parts, left_out={"notify"})

    assert (now.before, now.has_worked) == (None, False)
    assert DeclaredKeys.from_json(now.to_json()) == now
    assert DeclaredKeys.from_keys(AT, {"driver": "550"}, replace(now, has_worked=True)).before == {
        "driver": "535"
    }


def test_a_declaration_that_is_as_before_is_no_new_one() -> None:
    last = replace(DeclaredKeys.from_keys(AT, {"limits": {"memlock": "1G"}}), has_worked=True)

    assert (
        DeclaredKeys.from_keys("2026-11-24T14:00:00Z", {"limits": {"memlock": "1G"}}, last) is last
    )


def test_going_back_can_be_undone_the_same_way() -> None:
    first = replace(DeclaredKeys.from_keys(AT, {"driver": "535"}), has_worked=True)
    second = replace(DeclaredKeys.from_keys(AT, {"driver": "550"}, first), has_worked=True)
    back = DeclaredKeys.from_keys(AT, {"driver": "535"}, second)

    assert back.before == {"driver": "550"}
    assert (
        DeclaredKeys.from_keys(AT, {"driver": "550"}, back).before is None
    )  # the first did not work again


def test_a_record_of_an_earlier_version_has_not_worked_yet() -> None:
    text = json.dumps({"schema": "rigops.declared/1", "at": AT, "keys": {"driver": "535"}})

    found = readable(DeclaredKeys.from_json, text)

    assert found == DeclaredKeys(at=AT, keys={"driver": "535"})


def test_a_key_is_of_whoever_gave_it_its_value() -> None:
    first = DeclaredKeys.from_keys(AT, {"gpu_power_limit": 240, "driver": "535"}, who="me@desktop")
    later = "2026-11-24T14:00:00Z"
    keys = {"gpu_power_limit": 240, "driver": "550", "kernel_args": ("a",)}

    second = DeclaredKeys.from_keys(later, keys, first, who="kim@laptop")

    assert second.by == {
        "gpu_power_limit": Author("me@desktop", AT),
        "driver": Author("kim@laptop", later),
        "kernel_args": Author("kim@laptop", later),
    }
    assert readable(DeclaredKeys.from_json, second.to_json()) == second
    assert set(second.overridden(keys, "somebody@else")) == set()
    assert set(second.overridden({**keys, "driver": "580"}, "me@desktop")) == {"driver"}
    assert set(second.overridden({"driver": "550"}, "kim@laptop")) == {"gpu_power_limit"}


def test_of_an_older_record_it_is_not_known_who_declared_it() -> None:
    old = DeclaredKeys(at=AT, keys={"driver": "535", "kernel_args": ["a"]})

    new = DeclaredKeys.from_keys(AT, {"driver": "535", "kernel_args": ["b"]}, old, who="me@desktop")

    assert old.overridden({}, "me@desktop") == {}
    assert set(new.by) == {"kernel_args"}
