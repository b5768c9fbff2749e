"""What of a tree is old, and what borg reads of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rigops.backup.host.output import Output
from rigops.concerns.borg.host import checkpoint_excludes
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.host.checkpoint_excludes import checkpoint_excludes as exclude

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkpoint_excludes, "BORG_FILES", f"{tmp_path}/borg")
    monkeypatch.setattr(checkpoint_excludes, "LEFT_OUT", f"{tmp_path}/borg/left_out")
    made = tmp_path / "data" / "runs"
    make(made, "a", 1, 2, 3)
    return made


def make(runs: Path, run: str, *steps: int) -> None:
    for step in steps:
        (runs / run / f"checkpoint-{step}").mkdir(parents=True)
        (runs / run / f"checkpoint-{step}" / "model.safetensors").write_text(str(step))


def settings(runs: Path, newest: int = 1, *paths: Path, **more: int) -> BorgSettings:
    checkpoints = {str(runs): newest, **{f"{runs}/{name}": one for name, one in more.items()}}
    declared = (str(runs.parent), *map(str, paths))
    return BorgSettings("rig", "/b/rig", declared, checkpoints=checkpoints)


def left_out(declared: BorgSettings) -> list[str]:
    """Below the first declared path of checkpoints."""
    count, words = exclude(declared, Output(as_json=False))
    with open(words[1], encoding="utf-8") as file:  # noqa: PTH123 - as borg does
        lines = file.read().splitlines()
    assert words[0] == "--patterns-from"
    assert count == len(lines)
    start = f"! pf:{next(iter(declared.checkpoints))}/"
    assert all(line.startswith(start) for line in lines)
    return [line[len(start) :] for line in lines]


def test_in_every_folder_below_the_newest_stay(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(runs, "b/deep/er", 10, 9)

    assert left_out(settings(runs)) == [
        "a/checkpoint-1",
        "a/checkpoint-2",
        "b/deep/er/checkpoint-9",
    ]
    said = f"{runs}: checkpoints left out: 3; of each series, the newest 1 stay\n"
    assert capsys.readouterr().out == said
    assert left_out(settings(runs, 3)) == []


def test_without_a_declaration_borg_gets_no_list(runs: Path) -> None:
    declared = settings(runs)._replace(checkpoints={})

    assert exclude(declared, Output(as_json=False)) == (0, [])


def test_what_lies_deeper_has_its_own_number(runs: Path) -> None:
    make(runs, "b", 1, 2, 3)

    found = left_out(settings(runs, a=2))

    assert found == ["b/checkpoint-1", "b/checkpoint-2", "a/checkpoint-1"]


def test_what_a_link_leads_to_stays(runs: Path) -> None:
    (runs / "a" / "best").symlink_to("checkpoint-1")
    (runs / "weights").symlink_to(runs / "a" / "checkpoint-2" / "model.safetensors")

    assert left_out(settings(runs)) == []


def test_a_link_is_no_checkpoint_itself(runs: Path) -> None:
    (runs / "a" / "checkpoint-9").symlink_to("checkpoint-2")

    assert left_out(settings(runs)) == ["a/checkpoint-1"]


def test_a_path_that_is_declared_itself_stays(runs: Path) -> None:
    inside = runs / "a" / "checkpoint-1" / "model.safetensors"

    assert left_out(settings(runs, 1, inside)) == ["a/checkpoint-2"]


@pytest.mark.parametrize("name", [b"of \xff", b"two\nlines", b"and\rmore"])
def test_what_cannot_be_written_in_a_line_stays(runs: Path, name: bytes) -> None:
    for step in (1, 2):
        os.makedirs(os.fsencode(runs) + b"/" + name + b"/checkpoint-%d" % step)  # noqa: PTH103 - bytes

    assert left_out(settings(runs)) == ["a/checkpoint-1", "a/checkpoint-2"]


def test_a_folder_that_is_absent_or_a_file_has_none(runs: Path) -> None:
    (runs / "file").write_text("")
    declared = settings(runs)

    for name in ("absent", "file"):
        found = declared._replace(checkpoints={f"{runs}/{name}": 1})
        assert left_out(found) == []


def test_for_rigops_the_number_is_a_notice(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exclude(settings(runs), Output(as_json=True))

    (line,) = capsys.readouterr().out.splitlines()
    assert "checkpoints left out: 2" in json.loads(line)["notice"]
