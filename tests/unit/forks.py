"""Programs that need a process of their own, as forks of one that has their imports done.

A start of rigops takes longer than most tests.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import version_0_1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
RIGOPS: Final = "from rigops.cli.main import main; main(words)"
# The first patches the process, as it does at the start of a command that converges.
CONVERGES: Final = (
    "rigops.converge.early",
    *(f"rigops.cli.{name}" for name in ("apply", "plan", "reprovision", "rollback", "release")),
)
EXAMINES: Final = ("rigops.cli.doctor", "rigops.cli.examiner", "rigops.cli.bundle_io")
_LONGEST_S: Final = 300

_SERVER: Final = f"""
import importlib, json, os, signal, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    code, words, folder, environment, said = json.loads(line)
    if os.fork() == 0:
        signal.alarm({_LONGEST_S})
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(os.open(f"{{said}}/{{stream}}", os.O_WRONLY | os.O_CREAT), stream)
        exec(code, {{"words": words}})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return version_0_1.parsed(self.out)


def forked(
    code: str,
    *words: str,
    imported: tuple[str, ...] = CONVERGES,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Said:
    """What a process says that has imported this, and runs the code there."""
    server = _server(imported)
    assert server.stdin
    assert server.stdout
    given = {**os.environ, **(environment or {})}
    with tempfile.TemporaryDirectory() as said:
        asked: Sequence[object] = (code, words, str(folder or Path.cwd()), given, said)
        server.stdin.write(f"{json.dumps(asked)}\n")
        server.stdin.flush()
        exit_code = int(server.stdout.readline())
        return Said(exit_code, *(Path(said, stream).read_text() for stream in ("1", "2")))


@cache
def _server(imported: tuple[str, ...]) -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, *imported],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server
