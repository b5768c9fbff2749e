"""Lines as people and programs hand them on: with other quote marks, blanks, escapes and letters.

A text and the patterns that are sought in it are brought to one plain form, in which what is said
in another way is the same: "could not" and "unable to", one and several, with an article or not.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

_MARKS: Final = "\"'`\u00b4\u00ab\u00bb\u201a\u2018\u2019\u201c\u201d"
_CURLY: Final = re.compile("[\u00b4\u2018\u2019]")
_EVERY_MARK: Final = re.compile(f"[{_MARKS}]+")

_COLORS: Final = re.compile(
    r"(?:\\{1,4}(?:x1[bB]|033|u001[bB]|e(?=\[))|#033|\^\[)(?:\[[0-9;]{0,20}[mK])?|"
    r"\[[0-9]{1,3}(?:;[0-9]{1,3}){0,6}m"
)
_BY_NUMBER: Final = re.compile(r"\\{1,4}u(?P<code>00(?:2[0267]|3[cCeE]|60)|20(?:1[89cCdD]|2[06]))")
_ENTITY: Final = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{2,4}|#x[0-9A-Fa-f]{2,4});")
_TAG: Final = re.compile(
    r"</?(?:a|b|br|code|div|em|font|i|kbd|li|mark|p|pre|samp|span|strong|td|tr|u)"
    r"(?: [^<>\n]{0,200})?/?>"
)
_ESCAPES: Final = re.compile(r"\\{1,8}(?=[_*<>\[\](){}#|~.!/+\"'`-])")
_BLANKS: Final = re.compile(r"\\{1,4}[tr](?![a-z])|#011|[ \t\u3000]{2,400}|[\t\u3000]")
_SEVERAL: Final = re.compile(r" {2,400}")
_END: Final = re.compile(r"\\{1,4}n(?!vidia)")  # no folder of Windows
_EMPHASIS: Final = re.compile(r"\*{2,3}|\*(?<![\w*]\*)(?=\w)|\*(?<=\w\*)(?![\w*])")
_SLASHES: Final = re.compile(r"(?<![:/])/{2,4}(?=\w)")
_AROUND_SIGNS: Final = re.compile(r" ([:=]) |([:=]) | (?<=\w )([:=])(?=\w)")

_CAN_NOT: Final = re.compile(r"\bcan(?:'|no|n')t\b", re.IGNORECASE)
_CONTRACTED: Final = re.compile(r"(?<=[a-z])n't\b", re.IGNORECASE)
_CANNOT: Final = re.compile(
    r"\b(?:could ?not|can not|(?:un|(?:(?:was|is|were|are) )?not )able to|fail(?:ed|s)? to)\b",
    re.IGNORECASE,
)
_NOT_FOUND: Final = re.compile(r"\b(?:cannot be|was not|is not|were not) found\b", re.IGNORECASE)
_PLURAL: Final = re.compile(r"(?<=[a-z][a-rt-z])s(?![\w'?*+{>])", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"\b(?:the|an?)(?: (?=[^\s?*+{|)])|$)", re.IGNORECASE | re.MULTILINE)
_AUXILIARY: Final = re.compile(  # without their plural
    r"\b(?:(?P<is>are|wa|were)|(?P<doe>do|did)|(?P<ha>have|had))\b", re.IGNORECASE
)

_OTHER_NOT: Final = re.compile(r"(?<=[a-z]n)(?:\.|\[[^\]]{0,10}'[^\]]{0,10}\])\??t\b")
_EITHER_CASE: Final = re.compile(r"\[([A-Z])([a-z])\](?![{?*+])")
_PART: Final = re.compile(
    r"(?P<times>(?:\{[0-9]*(?:,[0-9]*)?\}|[*+?])\??)|\[\^?\]?(?:\\.|[^\]\\\[]){0,400}\]|"
    r"\(\?(?:P<\w{1,40}>|[a-z-]{0,4}:|<?[=!])|\\.|.",
    re.DOTALL,
)
_FEWEST: Final = re.compile(r"^\{[1-9][0-9]*(?=,)")
_MAY_LACK: Final = frozenset({" ", ".", r"\*", r"\\", r"\s", r"\t"})
_SIGNS_ALONE: Final = frozenset({":", "="})  # in plain form without blanks
_SIGNS: Final = _SIGNS_ALONE | {","}


def plain(text: str) -> str:
    """As many lines as before."""
    text = _COLORS.sub("", text)
    if "\\u" in text:
        text = _BY_NUMBER.sub(lambda found: chr(int(found["code"], 16)), text)
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    if "<" in text:
        text = _TAG.sub("", text)
    if "\\" in text:
        text = _ESCAPES.sub("", text)
    if "*" in text:
        text = _EMPHASIS.sub("", text)
    if "//" in text:
        text = _SLASHES.sub("/", text)
    text = _in_one_way(_BLANKS.sub(" ", _CURLY.sub("'", text)))
    return _AROUND_SIGNS.sub(r"\1\2\3", _SEVERAL.sub(" ", _EVERY_MARK.sub("", text)))


def pieces(line: str) -> list[str]:
    """A program may have printed the ends of lines as two characters."""
    return _END.split(line)


def _in_one_way(text: str) -> str:
    text = _CONTRACTED.sub(" not", _CAN_NOT.sub("cannot", text))
    text = _NOT_FOUND.sub("not found", _CANNOT.sub("cannot", text))
    text = _ARTICLE.sub("", _PLURAL.sub("", text))
    return _AUXILIARY.sub(lambda found: found.lastgroup or "", text)


def plain_words(words: Sequence[str]) -> dict[str, str]:
    """All at once, since there are thousands."""
    return dict(zip(words, map(str.strip, plain("\n".join(words)).split("\n")), strict=True))


@cache
def of_plain(pattern: str) -> re.Pattern[str]:
    """For the plain form of what the pattern is for."""
    pattern = _EITHER_CASE.sub(
        lambda found: found[2] if found[1].lower() == found[2] else found[0], pattern
    )
    said = "".join(_loosened(_in_one_way(_OTHER_NOT.sub("'t", pattern))))
    return re.compile(said, re.MULTILINE | re.IGNORECASE)


def _loosened(pattern: str) -> list[str]:
    """Quote marks, some blanks and what stands for them may lack."""
    parts = [(found[0], found["times"] is not None) for found in _PART.finditer(pattern)]
    said: list[str] = []
    behind = 0  # depth of groups in a look-behind, which has one length
    before = last = ""
    for (part, is_times), (after, is_repeated) in zip(
        parts, [*parts[1:], ("", False)], strict=True
    ):
        if is_times:
            said.append(part if behind else _FEWEST.sub(_fewest(last, {before, after}), part))
            continue
        before, last = last, part
        if part[0] == "(" and (behind or part.startswith("(?<")):
            behind += 1
        elif part == ")" and behind:
            behind -= 1
        if behind and part == " " and not _SIGNS_ALONE.isdisjoint({before, after}):
            continue
        if behind or is_repeated:
            is_named = not behind and part.startswith("[^") and _has_mark(part)
            said.append(rf"{part[:-1]}\s]" if is_named and _has_mark(before) else part)
        elif part == " ":
            near_sign = not _SIGNS.isdisjoint({before, after})
            said.append("" if before == " " else " ?" if near_sign else " ")
        else:
            said.append(f"{part}?" if _may_lack(part) else part)
    return said


def _fewest(part: str, near: set[str]) -> str:
    """Of a repeated blank there is one at least, but for one beside a sign."""
    if not _may_lack(part) or part == ".":
        return r"\g<0>"
    return "{0" if _has_mark(part) or not _SIGNS.isdisjoint(near) else "{1"


def _has_mark(part: str) -> bool:
    return any(mark in part for mark in _MARKS)


def _may_lack(part: str) -> bool:
    return part in _MAY_LACK or (not part.startswith("[^") and _has_mark(part))
