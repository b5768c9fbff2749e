"""What a host remembers of its inventory."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from rigops.json_fields import readable
from rigops.probe.sections.rigops_state import STATE
from rigops.record import declared
from rigops.record.declared import Declared

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

AT = "2026-11-23T14:00:00Z"


def test_what_is_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_WRITE", declared._WRITE.replace(STATE, str(tmp_path)))
    keys = {"driver": "535", "kernel_args": ("iommu=pt", "a='b c'"), "gpus": {"é": 2}}
    wanted = Declared.of(AT, keys)

    subprocess.run(wanted.writing(), check=True)

    found = readable(Declared.from_json, (tmp_path / "declared.json").read_text())
    assert found == wanted
    assert found.keys == {**keys, "kernel_args": ["iommu=pt", "a='b c'"]}
    assert [one.name for one in tmp_path.iterdir()] == ["declared.json"]


def test_a_record_that_cannot_be_read_is_none() -> None:
    whole = Declared.of(AT, {"driver": "535"}).to_json()

    assert readable(Declared.from_json, None) is None
    for damaged in ("", whole[:-5], whole.replace("declared/1", "declared/2"), '{"keys": []}'):
        assert readable(Declared.from_json, damaged) is None
