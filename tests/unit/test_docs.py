"""The documentation says what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.cli.main import COMMANDS
from rigops.spec import KEYS

if TYPE_CHECKING:
    from rigops.catalog.model import FirmwareSetting

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_documented_with_what_it_takes(name: str) -> None:
    key = KEYS[name]

    assert f"| `{name}` | {key.accepted} | {key.concern or 'none'} |" in (
        ROOT / "docs/inventory.md"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_shows_every_command(command: str) -> None:
    assert f"rigops {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", load().firmware, ids=lambda entry: entry.setting)
def test_the_words_of_every_board_are_documented(entry: FirmwareSetting) -> None:
    said = (ROOT / "docs/bios.md").read_text(encoding="utf-8")

    assert entry.seen.replace("|", "\\|") in said
    for board in entry.boards:
        assert f"| {', '.join(board.words)} | {board.place or 'differs'}" in said
