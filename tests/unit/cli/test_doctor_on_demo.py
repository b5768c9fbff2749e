"""The screens of doctor on the two rigs of the demo, as they were recorded."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit import recorded

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Rigops

INVENTORY = str(Path(__file__).parents[3] / "inventory/demo.py")
BOTH = ("--from", str(recorded.DEMO / "threadripper"), "--from", str(recorded.DEMO / "t180"))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("rigops.report.terminal._Stream.isatty", lambda _: True)
    return monkeypatch


def test_the_two_rigs_fit_40_lines(rigops: Rigops, terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "100")

    lines = rigops("doctor", "--no-color", "-i", INVENTORY, *BOTH).out.splitlines()

    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("threadripper  FAIL  Debian 12, kernel 6.1.0-31, driver 545.29.06")
    assert any(line.startswith("t180  ok  ") for line in lines)
    assert f"Next: rigops fix -i {INVENTORY}" in " ".join(lines)


def test_what_all_cards_have_is_one_line(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(
        'rigs = [("threadripper", {"gpu_power_limit": 285}), ("t180", {"driver": "535"})]'
    )

    lines = rigops("doctor", *BOTH).out.splitlines()

    (limit,) = (line for line in lines if "pwr.limit  " in line)
    assert limit.endswith("power limit is 350 W, declared 285 W (3 of 3 GPUs)")
    assert "Next: rigops fix    " in lines[-1]


def test_a_healthy_rig_is_six_lines(rigops: Rigops, terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "100")

    said = rigops("doctor", "--no-color", *BOTH[2:])

    assert said.code == 0
    assert len(said.out.splitlines()) == 6


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_word_is_broken_at_any_width(
    rigops: Rigops, terminal: pytest.MonkeyPatch, columns: int
) -> None:
    terminal.setenv("COLUMNS", str(columns))
    short, full = (rigops("doctor", "--no-color", *BOTH, *more).out for more in ((), ("-v",)))
    terminal.undo()
    piped, piped_full = (rigops("doctor", *BOTH, *more).out for more in ((), ("-v",)))

    assert full.split() == piped_full.split()
    assert set(short.split()) <= {*piped.split(), "…"}
    wide = [line for line in (short + full).splitlines() if len(line) > columns]
    assert all(len(line.split()) == 1 for line in wide)


def test_a_real_terminal_is_asked_for_its_width(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "rigops", "doctor", "--no-color", *BOTH]

    with subprocess.Popen(words, stdout=slave, cwd=tmp_path, env=environment):
        os.close(slave)
        shown = b""
        with suppress(OSError):  # the end, of a terminal
            while text := os.read(master, 4096):
                shown += text
    os.close(master)

    lines = shown.decode().splitlines()
    assert lines[0].startswith("threadripper  FAIL")
    assert 50 < max(map(len, lines)) <= 60


def test_a_pipe_has_the_same_lines_whole_and_without_colors(
    rigops: Rigops, terminal: pytest.MonkeyPatch
) -> None:
    terminal.setenv("COLUMNS", "60")
    shown = rigops("doctor", *BOTH).out
    terminal.undo()
    piped = rigops("doctor", *BOTH).out

    assert "\x1b[" in shown
    assert "\x1b" not in piped
    assert len(piped.splitlines()) < len(shown.splitlines())
    assert "…" not in piped.split("info  ")[1].splitlines()[0]


def test_verbose_adds_what_the_screen_leaves_out(rigops: Rigops) -> None:
    short, full = rigops("doctor", *BOTH).out, rigops("doctor", *BOTH, "-v").out

    assert "why: " not in short
    assert "why: " in full
    assert "nccl#1127" not in short
    assert "nccl#1127" in full
    assert "  info    nccl.level  " in full
