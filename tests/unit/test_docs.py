"""The documentation says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.cli.main import COMMANDS
from rigops.spec import KEYS

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
