"""Streams that take nothing, or not every letter: no fault of rigops, and the exit code stays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = {
    "stdout closed": (">&-", 0),
    "stderr closed": ("2>&-", 0),
    "all closed": ("<&- >&- 2>&-", 0),
    "stdout full": (">/dev/full", 1),
    "stderr full": ("2>/dev/full", 0),
    "a reader that stops": ("| head -c 1", 0),
    "no reader": ("| true", 0),
    "no reader of both": ("2>&1 | true", 0),
}
INVENTORY = 'rigs = [("rig", {"ssh_hostname": "größe"})]\ngpus = "猫"\n'  # the last is warned of


def rigops(folder: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "inventory.py").write_text(INVENTORY)
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m rigops {line}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(("redirection", "code"), BROKEN.values(), ids=list(BROKEN))
def test_a_stream_that_takes_nothing_is_no_fault(
    tmp_path: Path, redirection: str, code: int
) -> None:
    run = rigops(tmp_path, f"ssh-config {redirection}")

    assert run.returncode == code
    assert "Traceback" not in run.stderr
    assert "bug" not in run.stderr
    assert ("Error: stdout: No space left on device" in run.stderr) == (code == 1)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&1 | true"])
def test_an_error_has_its_exit_code_where_nobody_reads_it(tmp_path: Path, redirection: str) -> None:
    assert rigops(tmp_path, f"ssh-config -i missing.py {redirection}").returncode == 2


NO_UTF8: dict[str, dict[str, str]] = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "the C locale": {"LC_ALL": "C"},
    "the C locale, as Python 3.6 took it": {
        "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"
    },
}  # fmt: skip
FARTHEST = ("ascii", "the C locale, as Python 3.6 took it")


@pytest.mark.parametrize(
    ("terminal", "arguments"),
    [
        *((one, "ssh-config -i größe/猫.py") for one in NO_UTF8),
        *((one, words) for one in FARTHEST for words in ("ssh-config", "ssh-config --json")),
    ],
)
def test_letters_that_a_terminal_does_not_have_are_no_fault(
    tmp_path: Path, terminal: str, arguments: str
) -> None:
    run = rigops(tmp_path, arguments, **NO_UTF8[terminal])

    assert run.returncode == (2 if "-i" in arguments else 0)
    assert "Traceback" not in run.stderr
    assert "bug" not in run.stderr
    assert "gr" in run.stdout + run.stderr


@pytest.mark.parametrize("terminal", FARTHEST)
def test_without_utf_8_the_text_of_rigops_is_plain_ascii(tmp_path: Path, terminal: str) -> None:
    run = rigops(tmp_path, "history --help", **NO_UTF8[terminal])

    assert "[HOST]..." in run.stdout
    assert run.stdout.isascii()
    assert "\\u" not in run.stdout
