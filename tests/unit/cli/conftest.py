from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import pytest

from rigops.cli.main import main
from tests.unit.forks import RIGOPS, Said, forked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Rigops(Protocol):
    def __call__(self, *arguments: str) -> Said: ...


def apart(folder: Path, *commands: Sequence[str]) -> list[Said]:
    """Commands that converge, run there one after the other."""
    home = {"HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "data")}
    return [forked(RIGOPS, *words, folder=folder, environment=home) for words in commands]


@pytest.fixture
def rigops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Rigops:
    """The command, run in an empty folder with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("RIGOPS_INVENTORY", "XDG_CONFIG_HOME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        return Said(int(left.value.code or 0), said.out, said.err)

    return run
