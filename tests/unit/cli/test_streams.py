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
    assert rigops(tmp_path, f"plan -i missing.py {redirection}").returncode == 2


NO_UTF8 = pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"},
     {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "latin-1", "the C locale", "the C locale, as Python 3.6 took it"],
)  # fmt: skip


@NO_UTF8
@pytest.mark.parametrize("arguments", ["ssh-config", "ssh-config --json", "plan -i größe/猫.py"])
def test_letters_that_a_terminal_does_not_have_are_no_fault(
    tmp_path: Path, environment: dict[str, str], arguments: str
) -> None:
    run = rigops(tmp_path, arguments, **environment)

    assert run.returncode == (2 if "plan" in arguments else 0)
    assert "Traceback" not in run.stderr
    assert "bug" not in run.stderr
    assert "gr" in run.stdout + run.stderr


@NO_UTF8
def test_without_utf_8_the_text_of_rigops_is_plain_ascii(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run = rigops(tmp_path, "history --help", **environment)

    assert "[HOST]..." in run.stdout
    assert run.stdout.isascii()
    assert "\\u" not in run.stdout
