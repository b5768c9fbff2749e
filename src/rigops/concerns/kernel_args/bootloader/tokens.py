"""Arguments added to and taken from a command line inside a text; every other byte stays.

Words after a lone `--` are for init: ours go before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from rigops.concerns.kernel_args.bootloader import shell
from rigops.concerns.kernel_args.bootloader.shell import BARE, Unit, Value
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.probe.boot_files import Files

Finder = Callable[[str], "Line | None"]
Words = tuple[str, ...]

ENDS: Final = frozenset({"--", "---"})
_BLANKS: Final = frozenset(" \t\n\r\v\f")
_OPTIONS = re.compile(r"^[ \t]*options[ \t]+(?P<value>[^\n]*)", re.MULTILINE)
_LINES = re.compile(r"[^\n]+")
_OURS: Final = "# Added by rigops."


class CannotEditError(RigopsError):
    """A file that would be corrupted, or would not count. `reason` is a clause about it."""

    def __init__(self, reason: str, path: str | None = None) -> None:
        self.reason = reason
        super().__init__(
            Problem(message=f"{path} cannot be edited: {reason}" if path else reason, file=path)
        )


class ByHand:
    """`how`: the step for a person, as a clause with {} where the arguments go."""

    how: str

    def by_hand(self, wanted: Iterable[str]) -> str:
        return self.how.replace("{}", " ".join(wanted))


@dataclass(frozen=True)
class Token:
    text: str
    first: int  # of the units
    last: int


@dataclass(frozen=True)
class Line:
    """A command line as units with their places."""

    value: Value
    tokens: tuple[Token, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(token.text for token in self._kernels)

    @property
    def _kernels(self) -> tuple[Token, ...]:
        ends = (at for at, token in enumerate(self.tokens) if token.text in ENDS)
        return self.tokens[: next(ends, len(self.tokens))]

    def adding(self, text: str, argument: str) -> str:
        kernels, units = self._kernels, self.value.units
        if kernels:
            place = units[kernels[-1].last]
            return _put(text, place.end, f"{_blank(place.quote)}{argument}")
        if self.tokens:
            place = units[self.tokens[0].first]
            return _put(text, place.start, f"{argument}{_blank(place.quote)}")
        return _put(text, self.value.start, argument)

    def removing(self, text: str, argument: str) -> str:
        """The last of them, since ours were added after all others."""
        found = [at for at, one in enumerate(self._kernels) if one.text == argument]
        if not found:
            return text
        token, units = self.tokens[found[-1]], self.value.units
        start, end = units[token.first].start, units[token.last].end
        if found[-1] > 0:
            start = min(start, units[token.first - 1].start)
        elif len(self.tokens) > 1:
            end = max(end, units[token.last + 1].end)
        return text[:start] + text[end:]


@dataclass(frozen=True)
class Edit:
    """`before` and `after`: the whole text, None where there is no file."""

    path: str
    before: str | None
    after: str | None


def exact(files: Files, path: str) -> str:
    """The text, byte for byte as it is on the host."""
    if path in files.inexact:
        reason = "what was read of it is not all of it, byte for byte (a secret is hidden?)"
        raise CannotEditError(reason, path)
    return files[path]


def edit(
    files: Files,
    path: str,
    find: Finder,
    new_line: str = "",
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> tuple[Edit, ...]:
    """At most one: none where the file stays as it is."""
    before = files[path]
    try:
        after = changed(before, find, new_line, add=add, remove=remove)
    except CannotEditError as error:
        raise CannotEditError(error.reason, path) from error
    return (Edit(path, exact(files, path), after),) if after != before else ()


def added(text: str, find: Finder, arguments: Iterable[str]) -> str:
    """With these at the end, but for those that are there already."""
    for argument in arguments:
        line = _editable(find(text))
        if argument not in line.arguments:
            text = line.adding(text, argument)
    return text


def removed(text: str, find: Finder, arguments: Iterable[str]) -> str:
    for argument in reversed(tuple(arguments)):
        line = find(text)
        if line is not None and argument in line.arguments:
            text = _editable(line).removing(text, argument)
    return text


def changed(
    text: str, find: Finder, new_line: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> str:
    """`new_line`: what a file gets that has no such line, and loses when ours leave it empty."""
    text = removed(text, find, remove)
    line, wanted = find(text), tuple(add)
    if line is not None and not line.tokens:
        without = _without_ours(text, new_line)
        text = without if find(without) is None else text
    if wanted and find(text) is None:
        text = _with_ours(text, new_line)
    return added(text, find, wanted)


def assigned(name: str) -> Finder:
    """The value that a shell file gives to this variable in the end."""
    lines = re.compile(rf"^[ \t]*(?:export[ \t]+)?{name}=", re.MULTILINE)

    def find(text: str) -> Line | None:
        file = shell.read(text)
        ours = [one for one in file.assignments if one.name == name]
        if len(lines.findall(text)) > len(ours):
            return _line(Value((), 0, 0, fault=f"where {name} is set in it cannot be followed"))
        if not ours:
            return None
        value, fault = ours[-1].value, ours[-1].value.fault
        if any(one.appends for one in ours):
            fault = f"{name} is put together with +="
        elif file.decides:
            fault = f"it decides something by `{file.decides}`"
        return _line(Value(value.units, value.start, value.end, value.quote, fault))

    return find


def options(text: str) -> Line | None:
    """Of a boot loader entry: all its `options` lines are one command line."""
    found = list(_OPTIONS.finditer(text))
    if not found:
        return None
    return _line(_joined(text, [one.span("value") for one in found]))


def bare(text: str) -> Line:
    """A file that has nothing but arguments, on one line or on several."""
    return _line(_joined(text, [(0, len(text))]))


def commented(text: str) -> Line:
    """The same, where lines that begin with `#` are left out."""
    spans = [one.span() for one in _LINES.finditer(text) if not one[0].startswith("#")]
    if not spans and text and not text.endswith("\n"):
        return _line(Value((), len(text), len(text), fault="it has nothing but a comment"))
    return _line(_joined(text, spans or [(len(text), len(text))]))


def _joined(text: str, spans: list[tuple[int, int]]) -> Value:
    """The blank between two lines takes no room, so that nothing of it is ever taken out."""
    between = (
        [Unit(" ", start, start)] if number else [] for number, (start, _) in enumerate(spans)
    )
    letters = ([Unit(text[at], at, at + 1) for at in range(start, end)] for start, end in spans)
    units = tuple(chain.from_iterable(chain(*one) for one in zip(between, letters, strict=True)))
    return Value(units, spans[-1][0], spans[-1][1])


def _line(value: Value) -> Line:
    tokens = tuple(_tokens(value))
    is_open = bool(tokens) and tokens[-1].text.count('"') % 2 == 1
    if is_open and not value.fault:
        fault = "a quote of a kernel argument is not closed"
        value = Value(value.units, value.start, value.end, value.quote, fault)
    return Line(value, tokens)


def _tokens(value: Value) -> Iterator[Token]:
    """Between double quotes that reach the kernel a blank is a part of the argument."""
    first: int | None = None
    text, quoted = "", False
    for at, unit in enumerate(value.units):
        if unit.letter in _BLANKS and not quoted:
            if first is not None:
                yield Token(text, first, at - 1)
            first, text = None, ""
            continue
        quoted ^= unit.letter == '"'
        first = at if first is None else first
        # An unknown value equals no argument.
        text += unit.letter or f"\0{unit.reference}"
    if first is not None:
        yield Token(text, first, len(value.units) - 1)


def _editable(line: Line | None) -> Line:
    if line is None:
        raise CannotEditError("it has no line for kernel arguments")
    if line.value.fault:
        raise CannotEditError(line.value.fault)
    return line


def _blank(quote: str) -> str:
    return "\\ " if quote == BARE else " "


def _put(text: str, at: int, what: str) -> str:
    return text[:at] + what + text[at:]


def _with_ours(text: str, new_line: str) -> str:
    """A file that did not end with a newline ends without one again: `_without_ours` sees it."""
    ours = f"{_OURS}\n{new_line}"
    return f"{text}{ours}\n" if not text or text.endswith("\n") else f"{text}\n{ours}"


def _without_ours(text: str, new_line: str) -> str:
    ours = f"{_OURS}\n{new_line}"
    if text.endswith(f"\n{ours}"):
        return text.removesuffix(f"\n{ours}")
    before, found, after = text.rpartition(f"{ours}\n")
    return before + after if found and (not before or before.endswith("\n")) else text
