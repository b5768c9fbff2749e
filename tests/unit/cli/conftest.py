from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rigops.cli.main import main
from tests import version_0_1

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return version_0_1.parsed(self.out)


class Rigops(Protocol):
    def __call__(self, *arguments: str) -> Said: ...


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
