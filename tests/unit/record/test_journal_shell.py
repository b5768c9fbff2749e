"""The journal on a host, in the shells that hosts have."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.record import journal
from rigops.record.journal import Run
from rigops.record.shell import APPEND, READ
from tests.unit import programs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = "x" * 100_000  # more than a pipe holds, and than stdio writes at once


def run(number: int) -> str:
    fields = Run(
        host="rig",
        at=f"2026-01-{number:02}T00:00:00Z",
        inventory_digest="",
        outcome="changed",
        seconds=1,
        versions={},
        preflight=None,
    ).as_json()
    return json.dumps(fields)


def append(path: Path, line: str, shell: str = "dash") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*programs.shell(shell), "-c", f'{APPEND}set -eu\nappend "$@"', "rigops", path, line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def appended(path: Path, line: str, shell: str = "dash") -> str:
    done = append(path, line, shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def history(path: Path) -> tuple[int, int]:
    found = journal.read(path)
    return len(found.runs), found.unreadable


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_a_line_follows_a_torn_one_as_a_line_of_its_own(tmp_path: Path, shell: str) -> None:
    path = tmp_path / "journal.jsonl"
    assert [appended(path, run(number), shell) for number in (1, 2)] == ["", ""]
    os.truncate(path, path.stat().st_size - 5)

    assert appended(path, run(3), shell) == "torn\n"

    assert appended(path, run(4), shell) == ""
    assert history(path) == (3, 1)


def test_wherever_an_append_is_cut_off_the_next_one_loses_nothing_else(tmp_path: Path) -> None:
    """As a power cut leaves the file: with a part of what was written, or with NUL in its place."""
    path, before, line = tmp_path / "journal.jsonl", b"{1}\n", b"{2}\n"
    for size in range(len(line) + 1):
        for rest in (b"", bytes(len(line) - size)):
            path.write_bytes(before + line[:size] + rest)

            appended(path, "{3}")

            torn = (line[:size] + rest).removesuffix(b"\n")
            assert path.read_bytes() == before + torn + (b"\n" if torn else b"") + b"{3}\n"


@pytest.mark.parametrize("damage", ["folder", "pipe", "link", "link to nothing"])
def test_what_is_no_regular_file_is_neither_written_nor_waited_for(
    tmp_path: Path, damage: str
) -> None:
    path, other = tmp_path / "journal.jsonl", tmp_path / "other"
    match damage:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to(other)
            if damage == "link":
                other.write_text("of somebody")

    done = append(path, run(1))

    assert done.returncode == 1
    assert done.stderr == f"{path} is no regular file\n"
    assert not other.exists() or other.read_text() == "of somebody"


def test_lines_that_are_written_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    text = f'{APPEND}set -eu\nfor n in 1 2 3 4 5 6 7 8; do append "$1" "$2"; done'
    writers = [
        subprocess.Popen(["dash", "-c", text, "rigops", path, f"{who}{LONG}"]) for who in "ab"
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert sorted(path.read_text().split()) == sorted([f"a{LONG}", f"b{LONG}"] * 8)


def read(path: Path, shell: str = "dash") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*programs.shell(shell), "-c", f'{READ}lines "$1"', "rigops", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_it_is_read_as_it_is_and_an_absent_one_is_empty(tmp_path: Path, shell: str) -> None:
    path = tmp_path / "journal.jsonl"
    assert (read(path, shell).returncode, read(path, shell).stdout) == (0, "")
    path.write_text("{1}\n{2")
    assert (read(path, shell).returncode, read(path, shell).stdout) == (0, "{1}\n{2")


def test_of_an_endless_one_the_end_is_read_and_what_it_cuts_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("{1}\n")
    os.truncate(path, 1 << 40)
    with path.open("a") as file:
        file.write("\n{2}\n")
    done = read(path)
    cut, *whole = done.stdout.splitlines()
    assert (done.returncode, cut.strip("\0"), whole) == (0, "", ["{2}"])
    assert journal.parse([cut.encode()]).unreadable == 1


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_no_empty_journal(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "journal.jsonl"
    make(path)
    done = read(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{path} is no regular file\n"


@pytest.mark.parametrize("text", [APPEND, READ])
def test_it_is_clean_shell(text: str) -> None:
    programs.assert_clean_shell(text)
