"""Kernel command lines, word by word: never by substring."""

from __future__ import annotations

from collections.abc import Iterable

from rigops.dataclass import dataclass


def split(line: str) -> tuple[str, ...]:
    """The arguments of a command line. A quoted value may have spaces, as in the kernel."""
    arguments: list[str] = []
    word, quoted = "", False
    for letter in line:
        if letter == '"':
            quoted = not quoted
        if letter.isspace() and not quoted:
            arguments.append(word)
            word = ""
        else:
            word += letter
    return tuple(argument for argument in (*arguments, word) if argument)


def name(argument: str) -> str:
    return argument.partition("=")[0]


def words(argument: str) -> list[str]:
    """`pci=a,b` is `pci=a` and `pci=b`."""
    own, equals, values = argument.partition("=")
    return [f"{own}={value}" for value in values.split(",")] if equals else [argument]


@dataclass(frozen=True)
class Split:
    """Declared arguments against those in files of others."""

    ours: tuple[str, ...]  # to be added by rigops
    present: tuple[str, ...]  # already in files of others: not owned, never removed
    conflicts: tuple[str, ...]  # those of others with another value


def against(declared: Iterable[str], foreign: Iterable[str]) -> Split:
    others = tuple(foreign)
    wanted = tuple(declared)
    ours = tuple(argument for argument in wanted if argument not in others)
    names = {name(argument) for argument in ours if "=" in argument}
    return Split(
        ours=ours,
        present=tuple(argument for argument in wanted if argument in others),
        conflicts=tuple(dict.fromkeys(other for other in others if name(other) in names)),
    )
