"""The command that declares doctor's fixes, up to the plan that it ends with. That is the lab's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

import rigops.cli.fix as module
import rigops.hosts.access as seen
from rigops.cli.fix import command
from rigops.errors import UsageError
from rigops.transport import TransportError
from tests.unit.cli.test_doctor import Rig
from tests.unit.cli.test_host_drivers import TEXTS
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from rigops.transport import Target

TEXT = """\
rigs = [
    ("tower", {"gpus": 2}),  # in the cellar
    ("gone", {}),
]
"""
FIXED = """\
rigs = [
    ("tower", {"gpus": 2, "driver": "535", "kernel_args": ["iommu=pt"]}),  # in the cellar
    ("gone", {}),
]
"""


@pytest.fixture
def fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """With its inventory in an empty folder."""

    def connect(target: Target, **_: object) -> Rig:
        if target.alias == "gone":
            raise TransportError("dns", "no address", host=target.name, fix="look it up")
        return Rig(target.name, {**TEXTS, **answers.BROKEN})

    monkeypatch.setattr(seen, "connect", connect)
    monkeypatch.setattr(module, "_plan", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIGOPS_INVENTORY", raising=False)
    (tmp_path / "inventory.py").write_text(TEXT)

    def run(*words: str) -> Result:
        return CliRunner().invoke(command, words, standalone_mode=False)

    return run


def test_without_a_terminal_the_difference_is_shown_and_nothing_written(
    fix: Callable[..., Result], tmp_path: Path
) -> None:
    said = fix("tower")

    assert said.return_value == 130
    assert '"driver": "535"  ' in said.stderr
    assert "driver 545.29.06 is known to be bad" in said.stderr
    assert '+    ("tower", {"gpus": 2, "driver": "535", ' in said.stderr
    assert "fix: pass --yes" in said.stderr
    assert (tmp_path / "inventory.py").read_text() == TEXT


def test_a_terminal_is_asked(
    fix: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr(module, "has_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)

    assert fix("tower").return_value == 130
    assert (tmp_path / "inventory.py").read_text() == TEXT
    said = fix("tower")
    assert said.return_value == 0
    assert asked == ["Write this into inventory.py?"] * 2
    assert (tmp_path / "inventory.py").read_text() == FIXED


def test_a_document_has_what_was_written_and_a_host_that_was_not_reached(
    fix: Callable[..., Result], tmp_path: Path
) -> None:
    said = fix("--yes", "--json")

    document = json.loads(said.stdout)
    assert said.return_value == 3
    assert (document["schema"], document["written"]) == ("rigops.fix/1", True)
    tower, gone = document["hosts"]
    assert [one["keys"] for one in tower["declare"]] == [
        {"driver": "535"},
        {"kernel_args": ["iommu=pt"]},
    ]
    assert (gone["status"], gone["error"]["kind"]) == ("unknown", "dns")
    assert (tmp_path / "inventory.py").read_text() == FIXED


def test_only_the_findings_that_are_named_are_fixed(
    fix: Callable[..., Result], tmp_path: Path
) -> None:
    assert fix("tower", "--yes", "--only", "drv.pin").return_value == 0

    declared = '{"gpus": 2, "driver": "535"}'
    assert (tmp_path / "inventory.py").read_text() == TEXT.replace('{"gpus": 2}', declared)


def test_a_host_whose_place_is_not_certain_is_named_with_its_line_and_what_to_write(
    fix: Callable[..., Result], tmp_path: Path
) -> None:
    text = 'rigs = [(name, {"gpus": 2}) for name in ["tower"]]\n'
    (tmp_path / "inventory.py").write_text(text)

    said = fix("--yes")

    assert said.return_value == 1
    assert "inventory.py:1: tower: where these keys belong is not certain" in said.stderr
    assert 'fix: write in its data: "driver": "535", "kernel_args": ["iommu=pt"]' in said.stderr
    assert "then: rigops apply" in said.stderr
    assert (tmp_path / "inventory.py").read_text() == text


def test_what_is_declared_already_is_not_written_again(
    fix: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text(FIXED)

    said = fix("tower")

    assert said.return_value == 0
    assert "Nothing to declare" in said.stderr


def test_a_host_that_is_in_no_inventory_is_a_usage_error(fix: Callable[..., Result]) -> None:
    assert isinstance(fix("me@10.0.0.7").exception, UsageError)
