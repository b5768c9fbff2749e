"""Whatever is printed shows what would steer the terminal, by whichever way it gets there."""

from __future__ import annotations

import io
import json
import logging
import sys
import traceback
from typing import TYPE_CHECKING

import click
import pytest

from rigops.cli.output import print_json, text_width, warn
from rigops.report.terminal import (
    clean_streams,
    print_lines,
    print_text,
    redraw,
    rendered,
    styled,
    visible,
)
from rigops.report.words import wrapped
from tests import hostile

if TYPE_CHECKING:
    from collections.abc import Callable


def logged(text: str) -> None:
    logging.StreamHandler(sys.stderr).emit(
        logging.LogRecord("x", logging.INFO, "", 0, text, (), None)
    )


def asked(text: str) -> None:
    with pytest.raises(click.Abort):
        click.confirm(text, err=True)


WRITERS: dict[str, Callable[[str], object]] = {
    "lines": print_lines,
    "lines on stderr": lambda text: print_lines(text, err=True),
    "a text": print_text,
    "styled": lambda text: print_lines(styled(text, fg="red", bold=True)),
    "progress": lambda text: redraw(text, 200),
    "a warning": lambda text: warn([text]),
    "click": click.echo,
    "click on stderr": lambda text: click.echo(text, err=True),
    "click in bytes": lambda text: click.echo(text.encode("utf-8", "replace")),
    "styled by click": lambda text: click.secho(text, fg="red"),
    "a question": asked,
    "print": print,
    "bytes": lambda text: sys.stdout.buffer.write(text.encode("utf-8", "replace")),
    "several lines": lambda text: sys.stdout.writelines([text, "\n"]),
    "a log": logged,
    "a traceback": lambda text: traceback.print_exception(ValueError(text)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_no_way_to_print_steers_a_terminal(
    writer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    own = "\x1b[G\x1b[K" if writer == "progress" else ""
    found = {}
    for name, text in hostile.STRINGS.items():
        with clean_streams():
            WRITERS[writer](text)
        said = capsys.readouterr()
        printed = said.out + said.err.removeprefix(own)
        assert "a" in printed
        found[name] = hostile.raw(printed)

    assert found == {name: [] for name in hostile.STRINGS}


def test_a_line_stays_one_line_and_shows_what_is_not_seen() -> None:
    for name, text in hostile.STRINGS.items():
        line = visible(text)

        assert "\n" not in line, name
        assert hostile.raw(line) == [], name
        shown = (letter for letter in text if hostile.raw(letter) or letter == "\n")
        assert all(letter.encode("unicode_escape").decode() in line for letter in shown), name
        assert visible(line) == line, name


def test_a_document_holds_the_text_and_prints_none_of_it_raw(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in hostile.STRINGS.items():
        with clean_streams():
            print_json({"text": text, text: 1})

        out = capsys.readouterr().out
        assert hostile.raw(out) == [], name
        assert json.loads(out) == {"text": text, text: 1}, name


@pytest.mark.parametrize("text", ["plain", "Grüße, 猫, …", "a\tb", "👍", "e\u0301"])
def test_what_can_be_seen_is_printed_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_only_our_own_styles_become_escape_sequences() -> None:
    for name, text in hostile.STRINGS.items():
        line = f"{text}{styled(text, fg='red')}{text}"

        plain, colored = (rendered(visible(line), color=color) for color in (False, True))

        assert plain == visible(text) * 3, name
        assert colored == f"{visible(text)}\x1b[31m{visible(text)}\x1b[0m{visible(text)}", name


def test_wrapped_lines_are_as_wide_as_what_is_printed() -> None:
    for name, text in hostile.STRINGS.items():
        lines = wrapped(f"{text} " * 20, 60)

        assert len(lines) > 1, name
        assert max(map(len, lines)) <= 60, name
        assert lines == [visible(line) for line in lines], name


@pytest.mark.parametrize(("columns", "width"), [(60, 60), (80, 80), (120, 100)])
def test_a_terminal_has_its_own_width_and_a_pipe_has_none(
    monkeypatch: pytest.MonkeyPatch, columns: int, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert text_width() == sys.maxsize

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert text_width() == width


@pytest.mark.parametrize("width", range(60, 101, 4))
def test_lines_end_between_words_and_a_path_stays_whole(width: int) -> None:
    path = "/sys/bus/pci/devices/0000:00:03.1/" + "x" * 100
    text = f"half-open ports sleep: {path} says auto, and so does the-other-one " * 3

    lines = wrapped(text, width, hanging="  ")

    assert " ".join(line.strip() for line in lines) == text.strip()
    assert all(len(line) <= width or line.split() == [path] for line in lines)


@pytest.mark.parametrize("writer", ["lines on stderr", "a warning"])
def test_a_line_that_is_too_long_for_its_terminal_ends_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    text = "  half of " + "words are-long/and/whole " * 20
    monkeypatch.setenv("COLUMNS", "60")
    WRITERS[writer](text)
    whole = capsys.readouterr().err
    assert len(whole.splitlines()) == 1

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    WRITERS[writer](text)

    said = capsys.readouterr().err
    assert said.split() == whole.split()
    assert len(said.splitlines()) > 1
    assert max(map(len, said.splitlines())) <= 60
    assert all(line.startswith("    ") for line in said.splitlines()[1:])


def test_colors_take_no_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("rigops.report.terminal._Stream.isatty", lambda _: True)

    with clean_streams():
        print_lines(" ".join(styled("x" * 9, fg="red") for _ in range(6)))
        print_lines(styled("y " * 40, fg="red"))

    first, *rest = capsys.readouterr().out.splitlines()
    assert first.count("x" * 9) == 6
    assert len(rest) == 2


def test_what_programs_read_or_people_paste_is_never_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_json({"text": "word " * 40})
    print_text("word " * 40)

    assert json.loads(capsys.readouterr().out.partition("\nword")[0]) == {"text": "word " * 40}
