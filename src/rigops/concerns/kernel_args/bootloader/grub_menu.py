"""The entries of a grub.cfg: as much of GRUB's grammar as it takes to find them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rigops.dataclass import dataclass

_LINUX: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?P<command>linux(?:16|efi)?)[ \t]+(?P<kernel>\S+)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_RECOVERY: Final = frozenset({
    "single", "recovery", "rescue", "emergency", "1", "s", "S",
    "systemd.unit=rescue.target", "systemd.unit=emergency.target",
})  # fmt: skip
_BEFORE_A_COMMAND: Final = frozenset({"then", "else", "do", "!"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,:=/+@%-]+")


@dataclass(frozen=True)
class GrubEntry:
    """A menu entry with one kernel. `body`: the text between its braces."""

    head: tuple[str, ...]  # its words, from `menuentry` on
    body: str
    kernel: str
    arguments: tuple[str, ...]  # variables of GRUB's left out

    @property
    def is_recovery(self) -> bool:
        return is_recovery(self.arguments)

    @property
    def is_open_to_all(self) -> bool:
        return "--unrestricted" in self.head

    def with_arguments(self, arguments: tuple[str, ...]) -> str:
        """The body with another command line, and without what would make it the default."""
        line = " ".join(map(word, arguments))
        body = _LINUX.sub(
            lambda old: f"{old['indent']}{old['command']}\t{old['kernel']} {line}", self.body
        )
        return re.sub(r"(?m)^[ \t]*savedefault[ \t]*\n", "", body)


def is_recovery(arguments: tuple[str, ...]) -> bool:
    return not _RECOVERY.isdisjoint(arguments)


def word(argument: str) -> str:
    """An argument of the kernel, quoted as a word of GRUB's."""
    bare = argument.replace('"', "")
    return bare if _PLAIN.fullmatch(bare) else "'" + bare.replace("'", r"'\''") + "'"


def entries(config: str) -> tuple[GrubEntry, ...]:
    """Those with exactly one kernel, in their order; those of submenus too."""
    return tuple(_entries(config))


def _entries(config: str) -> Iterator[GrubEntry]:
    for head, body in _blocks(config):
        if head[0] == "submenu":
            yield from _entries(body)
            continue
        kernels = list(_LINUX.finditer(body))
        if len(kernels) == 1:
            (line,) = kernels
            words = (token.text for token in _tokens(line["rest"]) if not token.is_sign)
            arguments = tuple(one for one in words if not one.startswith("$"))
            yield GrubEntry(head, body, line["kernel"], arguments)


@dataclass(frozen=True)
class _Token:
    """A word without its quotes, or one of ; { }; a newline counts as ;."""

    text: str
    is_sign: bool
    begin: int
    end: int


def _blocks(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words before each outer block that is an entry or a submenu, and what is in it."""
    command: list[str] = []
    depth, begin = 0, 0
    for token in _tokens(text):
        if not token.is_sign:
            if depth == 0 and (command or token.text not in _BEFORE_A_COMMAND):
                command.append(token.text)
        elif token.text == "{":
            depth += 1
            if depth == 1:
                begin = token.end
        elif token.text == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                if command and command[0] in {"menuentry", "submenu"}:
                    yield tuple(command), text[begin : token.begin]
                command = []
        elif depth == 0:
            command = []


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        letter = text[at]
        if text.startswith("\\\n", at):
            at += 2
        elif letter in " \t\r":
            at += 1
        elif letter == "#":
            newline = text.find("\n", at)
            at = len(text) if newline < 0 else newline
        elif letter in "\n;":
            yield _Token(";", is_sign=True, begin=at, end=at + 1)
            at += 1
        elif letter in "{}" and (at + 1 == len(text) or text[at + 1] in " \t\r\n;"):
            yield _Token(letter, is_sign=True, begin=at, end=at + 1)
            at += 1
        else:
            token = _word_at(text, at)
            yield token
            at = token.end


def _word_at(text: str, begin: int) -> _Token:
    word, quote, at = "", "", begin
    while at < len(text):
        letter = text[at]
        if quote == "'":
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter == "\\" and at + 1 < len(text):
            at += 1
            word += "" if text[at] == "\n" else text[at]
        elif letter == quote:
            quote = ""
        elif quote:
            word += letter
        elif letter in "'\"":
            quote = letter
        elif letter in " \t\r\n;":
            break
        else:
            word += letter
        at += 1
    return _Token(word, is_sign=False, begin=begin, end=at)
