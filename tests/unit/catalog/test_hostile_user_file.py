"""A user's file of every wrong kind is an error with the file, the entry and what is accepted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.errors import UsageError
from tests.unit.catalog.entries import DRIVER, GPU, XID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS: dict[str, tuple[bytes, str]] = {
    "binary": (bytes(range(256)) * 40, "UTF-8"),
    "latin-1": ('[[gpus]]\nname = "Größe"'.encode("latin-1"), "UTF-8"),
    "utf-16": (GPU.encode("utf-16"), "UTF-8"),
    "nul": (b'[[gpus]]\nname = "a\0b"\n', "TOML"),
    "huge": (b"#" * 5 * 1024 * 1024, "larger than"),
    "lists in lists": (b"x = " + b"[" * 50_000, "too many"),
    "tables in tables": (b"x = " + b"{a=" * 50_000, "too many"),
    "dots": (b"gpus" + b".a" * 900 + b" = 1\n", "gpus is not a list"),
    "digits": (b"[[xids]]\nnumber = " + b"9" * 5000, "TOML"),
    "hexadecimal digits": (b"[[xids]]\nnumber = 0x" + b"f" * 5000, "fits"),
    "hexadecimal digits in a text's place": (
        b"[[gpus]]\nname = 0x" + b"f" * 5000,
        "fits",
    ),
    "an unknown table": (b"[[cards]]\nname = 1\n", "not a table of the catalog"),
    "a text for a table": (b'gpus = "RTX 3090"\n', "not a list of tables"),
    "a table for a list": (b"[gpus]\nname = 1\n", "not a list of tables"),
    "a list for a key": (b'[[gpus]]\nname = ["a"]\n', "wrong type"),
    "a date for a key": (b"[[gpus]]\nname = 2026-01-01\n", "wrong type"),
    "without evidence": (
        DRIVER.replace("evidence", "x_evidence").encode(),
        "evidence",
    ),
}
NUMBERS = ("inf", "-inf", "nan", "1e400", "0x" + "f" * 300, '"\u0665"', "true", "[1]", "{a = 1}")


@pytest.mark.parametrize("kind", TEXTS)
def test_a_file_of_the_wrong_kind_is_an_error(tmp_path: Path, kind: str) -> None:
    content, words = TEXTS[kind]
    path = tmp_path / "own.toml"
    path.write_bytes(content)

    assert_refused(path, words)


def assert_refused(path: Path, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(path)

    for problem in refused.value.problems:
        assert problem.file == str(path)
        assert problem.fix or problem.accepted
        assert len(f"{problem.message}{problem.value}") < 1000
    assert any(words in problem.message for problem in refused.value.problems)


def _looped(path: Path) -> None:
    path.symlink_to(path)


def _unreadable(path: Path) -> None:
    path.write_text(GPU)
    path.chmod(0)


PLACES: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": _looped,
    "nothing": lambda path: path.symlink_to("/nothing/there"),
}
if os.geteuid():  # root reads every file
    PLACES["unreadable"] = _unreadable


@pytest.mark.parametrize("kind", PLACES)
def test_what_is_no_file_to_be_read_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "own.toml"
    PLACES[kind](path)

    assert_refused(path, "cannot read the catalog file")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
@pytest.mark.parametrize(("entry", "field"), [(GPU, "watts_max"), (XID, "number")])
def test_a_number_that_is_none_is_an_error(
    tmp_path: Path, entry: str, field: str, number: str
) -> None:
    lines = [line for line in entry.splitlines() if not line.startswith(f"{field} =")]
    path = tmp_path / "own.toml"
    path.write_text("\n".join([*lines[:2], f"{field} = {number}", *lines[2:]]) + "\n")

    assert_refused(path, field)
