"""The only way to stdout and stderr: nothing that is printed steers the terminal or hides there.

Texts come from hosts, archives and inventories. Only `styled` and `redraw` make escape sequences:
with a mark that no such text can hold, since it is random, and that becomes ESC when it is written.
"""

from __future__ import annotations

import io
import locale
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, TextIO, cast

import click

if TYPE_CHECKING:
    from typing_extensions import Buffer  # from Python 3.12 on in collections.abc

_ESC: Final = f"<{os.urandom(16).hex()}>"
_STYLE: Final = re.compile(re.escape(_ESC) + r"\[[0-9;]*m")
_HANGING: Final = 4
_CLEAR_LINE: Final = f"{_ESC}[G{_ESC}[K"
# Printable by Unicode's categories, and yet drawn as nothing.
_BLANK: Final = frozenset(
    (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
     *range(0xFE00, 0xFE10), 0xFFA0, *range(0xE0100, 0xE01F0))
)  # fmt: skip


# Characters beyond ASCII that rigops itself writes.
_ASCII: Final = str.maketrans({"…": "...", "°": "", "█": "#", "▒": "+", "░": "."})


class _Visible(dict[int, str]):
    """By code point, made when it is first met."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        is_seen = letter == "\t" or (letter.isprintable() and code not in _BLANK)
        self[code] = letter if is_seen else letter.encode("unicode_escape").decode()
        return self[code]


_VISIBLE: Final = _Visible()


def visible(text: str) -> str:
    r"""On one line, with `\x1b`, `\n` or `\u202e` for what is not seen on a terminal."""
    return text.translate(_VISIBLE)


def styled(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    styled_text = click.style(visible(text), fg=fg, bold=bold or None, dim=dim or None)
    return styled_text.replace("\x1b", _ESC)


def rendered(text: str, *, color: bool) -> str:
    """As it is written: lines stay lines."""
    lines = "\n".join(map(visible, text.split("\n")))
    return (lines if color else _STYLE.sub("", lines)).replace(_ESC, "\x1b")


def print_lines(*lines: str, err: bool = False) -> None:
    """Each is one line, whatever is in it; one that is too long for the terminal is wrapped."""
    stream = sys.stderr if err else sys.stdout
    width = get_terminal_size().columns if stream.isatty() else sys.maxsize
    fitted = (part for line in lines for part in _fitted(visible(line), width))
    stream.write("".join(f"{line}\n" for line in fitted))
    stream.flush()


def print_text(text: str) -> None:
    """One whose lines are its own, for programs or to be pasted."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in text.removesuffix("\n").split("\n")))
    sys.stdout.flush()


def _fitted(line: str, width: int) -> Iterator[str]:
    """Styles take no room, and go on in the next line."""
    plain = _STYLE.sub("", line)
    if len(plain) <= width:
        yield line
        return
    indent = min(len(plain) - len(plain.lstrip(" ")) + _HANGING, width // 2)
    begun = ""
    for word in re.findall(r" *[^ ]+| +$", line):
        if begun.strip() and len(_STYLE.sub("", begun + word)) > width:
            yield begun
            begun = " " * indent + word.lstrip(" ")
        else:
            begun += word
    yield begun


def redraw(line: str, width: int) -> None:
    """In place of the line that stderr, a terminal, is at."""
    sys.stderr.write(_CLEAR_LINE + visible(line)[:width])
    sys.stderr.flush()


def terminal_stream() -> TextIO:
    """Stdout as it is, for who makes escape sequences itself, of texts that are `visible`."""
    stream = sys.stdout
    return stream.raw if isinstance(stream, _Stream) else stream


class _Bytes(io.BufferedIOBase):
    """For click, which completes words in bytes."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, content: Buffer) -> int:
        return self._stream.write(bytes(content).decode("utf-8", "replace"))

    def flush(self) -> None:
        self._stream.flush()


class _Stream(io.TextIOBase):
    """Whatever is printed goes through it: also what click, logging and Python itself print."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self.buffer = _Bytes(self)
        self._stream = stream
        self._name = name
        is_c_locale = locale.setlocale(locale.LC_CTYPE) in {"C", "POSIX"}
        self._is_ascii = is_c_locale or "utf" not in (stream.encoding or "").lower()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute there
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # an attribute there
        return self._stream.errors

    @property
    def raw(self) -> TextIO:
        return self._stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        context = click.get_current_context(silent=True)
        color = context.color if context else None
        shown = text.translate(_ASCII) if self._is_ascii else text
        self._do(rendered(shown, color=self.isatty() if color is None else color))
        return len(text)

    def flush(self) -> None:
        self._do("")

    def _do(self, text: str) -> None:
        if self._stream.closed:  # when Python ends, or by an inventory
            return
        try:
            if text:
                self._stream.write(text)
            else:
                self._stream.flush()
        except BrokenPipeError:  # nobody reads it any more, and work on hosts goes on
            pass
        except OSError as error:
            if self._name == "stdout":
                error.filename = self._name
                raise


@contextmanager
def clean_streams() -> Iterator[None]:
    with ExitStack() as stack:
        for name, redirect in (("stdout", redirect_stdout), ("stderr", redirect_stderr)):
            stream = getattr(sys, name)
            if stream is None:  # closed
                stream = stack.enter_context(Path(os.devnull).open("w"))
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            stack.enter_context(redirect(cast("TextIO", _Stream(stream, name))))
        yield
