"""What steers a terminal or hides in it: in the texts of hosts, archives and inventories."""

from __future__ import annotations

import unicodedata

STRINGS = {
    "clear the screen": "a\x1b[2J\x1b[Hb",
    "color": "a\x1b[32mok\x1b[0mb",
    "conceal": "a\x1b[8mb",
    "title": "a\x1b]0;owned\x07b",
    "clipboard": "a\x1b]52;c;cm0gLXJmIC8=\x1b\\b",
    "link": "a\x1b]8;;http://x\x1b\\b",
    "device control": "a\x1bP1$r0m\x1b\\b",
    "eight-bit CSI": "a\x9b2Jb",
    "next line": "a\x85b",
    "overwrite the line": "a\rb",
    "backspaces": "a\b\b\bb",
    "a forged line": "a\nNothing to fix.\n",
    "form feed": "a\x0b\x0cb",
    "shift out": "a\x0eb",
    "NUL and DEL": "a\0\x7fb",
    "right to left override": "a\u202egnp.exe",
    "embeddings": "a\u202a\u202b\u202c\u202db",
    "isolates": "a\u2066\u2067\u2068\u2069b",
    "marks": "a\u200e\u200f\u061cb",
    "zero width": "a\u200b\u200c\u200d\u2060\ufeffb",
    "soft hyphen": "a\xadb",
    "tags": "a\U000e0001\U000e0041\U000e007fb",
    "variation selectors": "a\ufe0f\U000e0100b",
    "blank letters": "a\u3164\u115f\u1160\uffa0\u2800\u034fb",
    "separators": "a\u2028b\u2029c",
    "no-break spaces": "a\xa0\u3000b",
    "lone surrogates": "a\udcff\ud800b",
    "private use": "a\ue000\U0010ffffb",
    "annotation": "a\ufff9b\ufffac\ufffbd",
}  # fmt: skip
_BLANK = set("\u3164\u115f\u1160\uffa0\u2800\u034f\ufe0f\U000e0100")


def raw(text: str) -> list[str]:
    """What of it should not have been printed as it is. Lines may end and words have spaces."""
    return [
        letter
        for letter in text
        if letter not in "\n\t " and (unicodedata.category(letter)[0] in "CZ" or letter in _BLANK)
    ]
