"""What must not leave a host at all. The probe drops it there, a person may not."""

from __future__ import annotations

import re
from typing import Final

_VALUE: Final = r"(?:\"[^\"\n]*\"|[^\s\"]*)"
_NAMES: Final = "passw|passphrase|secret|token|credential|api_?key|psk"
_RULES: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"(://|iscsi:)[^/@\s\"]{1,512}@", r"\1***@"),
        (rf"(?i)((?:{_NAMES})[^\s=\"]{{0,80}}=){_VALUE}", r"\1***"),
        (rf"(?im)((?:^|[\s._\"-])(?:[A-Za-z0-9]{{0,40}}pw|pwd|pass)=){_VALUE}", r"\1***"),
        (r"\b(password|password_pbkdf2)[ \t][^\n]*", r"\1 ***"),
        (r"\b(Authorization:|Bearer)[ \t]+[A-Za-z0-9][^\n]{15,}", r"\1 ***"),
        # By their own marks: access tokens of the usual services, and signed web tokens.
        (
            r"\b(?:gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abp]-|AKIA)[A-Za-z0-9_-]{16,255}",
            "***",
        ),
        (r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}", "***"),
    )
)


def hidden(text: str) -> str:
    for shape, instead in _RULES:
        text = shape.sub(instead, text)
    return text
