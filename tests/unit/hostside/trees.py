"""Small packages on disk for pack to read, and the oldest Python at hand to run the result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """`root` stands for the folder of the package rigops; keys are paths inside it."""
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return root


@cache
def oldest_python() -> str:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in (8, 9):
        found = [str(path) for path in versions.glob(f"3.{minor}.*/bin/python")]
        found += filter(None, [shutil.which(f"python3.{minor}")])
        for candidate in found:
            if _run([candidate, "-I", "-c", ""], "").returncode == 0:
                return candidate
    return sys.executable


def run_python(text: str) -> str:
    return _checked(_run([oldest_python(), "-I", "-"], text))


def run_shell(text: str) -> str:
    return _checked(_run([shutil.which("dash") or "sh"], text))


def _run(command: list[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def _checked(finished: subprocess.CompletedProcess[str]) -> str:
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout
