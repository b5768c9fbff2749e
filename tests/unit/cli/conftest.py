from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rigops.cli.main import main
from tests import version_0_1

if TYPE_CHECKING:
    from collections.abc import Sequence
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


# What converges makes gevent replace the threads of the process: it gets one of its own, and each
# command a fork of that.
_APART = """
import json, os, sys
import rigops.cli.apply
from rigops.cli.main import main

for number, words in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        for stream in (1, 2):
            os.dup2(os.open(f"said.{number}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
        sys.exit(main(words))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)  # or the next fork prints it again
"""


def apart(folder: Path, *commands: Sequence[str]) -> list[Said]:
    """Commands that converge, run there one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", _APART, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "data")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        Said(int(code), *((folder / f"said.{number}.{stream}").read_text() for stream in (1, 2)))
        for number, code in enumerate(done.stdout.split())
    ]


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
