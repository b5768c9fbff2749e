"""A command as text that every login shell passes on unchanged: sh and its kin, fish, csh."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

# Characters that fish and csh change even between single quotes; the at sign introduces the others.
_CODES: Final = {"@": "@a", "\\": "@b", "\n": "@n", "!": "@x"}
_DECODE: Final = (
    'BEGIN{t=ARGV[1];gsub(/@b/,sprintf("%c",92),t);gsub(/@n/,sprintf("%c",10),t);'
    'gsub(/@x/,sprintf("%c",33),t);gsub(/@a/,"@",t);printf "%s",t}'
)


def command_line(argv: Sequence[str]) -> str:
    plain = shlex.join(argv)
    if not set(plain) & {"\\", "\n", "!"}:
        return plain
    coded = "".join(_CODES.get(character, character) for character in plain)
    return shlex.join(["sh", "-c", 'eval "exec $(awk "$0" "$1")"', _DECODE, coded])
