"""GRUB as Debian and Ubuntu have it: /etc/default/grub, then /etc/default/grub.d/*.cfg."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.bootloader import arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULTS = "/etc/default/grub"
DROP_IN = "/etc/default/grub.d/99-rigops.cfg"
DROP_IN_MODE = 0o644

_VARIABLES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_REFERENCE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def foreign_arguments(files: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments of every normal boot that come from files other than ours."""
    order = sorted(files, key=lambda path: (path != DEFAULTS, path))
    values: dict[str, str] = {}
    for path in order:
        if path != DROP_IN:
            _source(files[path], values)
    line = " ".join(values.get(variable, "") for variable in _VARIABLES)
    return arguments.split(line)


def drop_in(wanted: Iterable[str]) -> str:
    words = " ".join(wanted)
    return (
        "# Made by rigops from kernel_args in the inventory; made anew, never edited.\n"
        f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"\n'
    )


def added_arguments(drop_in_text: str) -> tuple[str, ...]:
    """What our drop-in adds to whatever was there before."""
    values: dict[str, str] = {}
    _source(drop_in_text, values)
    return arguments.split(" ".join(values.get(variable, "") for variable in _VARIABLES))


def _source(text: str, values: dict[str, str]) -> None:
    """The plain assignments of a shell file, in order. What a program computes is not known."""
    for matched in _ASSIGNMENT.finditer(text):
        values[matched[1]] = _value(text, matched.end(), values)


def _value(text: str, at: int, values: Mapping[str, str]) -> str:
    value = ""
    quote = ""
    while at < len(text):
        letter = text[at]
        if quote == "'":
            if letter == quote:
                quote = ""
            else:
                value += letter
        elif letter == "\\" and at + 1 < len(text):
            at += 1
            value += "" if text[at] == "\n" else text[at]
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and (letter.isspace() or letter in ";#&|"):
            break
        elif letter == "$" and (reference := _REFERENCE.match(text, at)):
            value += values.get(reference[1] or reference[2], "")
            at = reference.end() - 1
        else:
            value += letter
        at += 1
    return value
