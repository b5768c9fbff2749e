"""The first hour in one picture: screens of docs/first-hour.md, drawn as a terminal shows them."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of each command the lines from one to another, both with such a beginning; … for what is left out.
_SCREENS: Final = (
    ("rigops doctor", (("threadripper  FAIL", "Next:"),)),
    ("rigops fix", (('  "driver"', '  "gpu_persistence"'), ("Write this", "Wrote"))),
    ("rigops apply", (("Change threadripper", "[y]es"), ("threadripper  no pair", "    the boot"))),
)
_COLORS: Final = (
    (re.compile(r"^\$ .*"), "command"),
    (re.compile(r"(?<=^  )fail\b|\bFAIL\b"), "fail"),
    (re.compile(r"(?<=^  )warn\b"), "warn"),
    (re.compile(r"^threadripper changed"), "ok"),
    (re.compile(r"^…$"), "dim"),
    (re.compile(r"(?<=\[y/N\]: )y$|(?<=\[N\]o: )y$"), "command"),
)
_LINE, _CHARACTER, _EDGE, _BAR = 18, 7.8, 20, 34
_STYLE: Final = """\
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dae0; }
.command { fill: #ffffff; font-weight: bold; }
.fail { fill: #ff7b72; font-weight: bold; }
.warn { fill: #e3b341; font-weight: bold; }
.ok { fill: #7ee787; font-weight: bold; }
.dim { fill: #8b949e; }"""


def picture(page: str) -> str:
    lines = list(_lines(page))
    width = round(max(map(len, lines)) * _CHARACTER + 2 * _EDGE)
    height = _BAR + len(lines) * _LINE + _EDGE
    drawn = "\n".join(
        _text(line, _BAR + _LINE * number) for number, line in enumerate(lines, 1) if line
    )
    title = "rigops doctor finds what is wrong, fix declares it, apply changes it and proves it"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-label="{title}">
<title>{title}</title>
<style>
{_STYLE}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>
<circle cx="20" cy="18" r="5" fill="#ff7b72"/>
<circle cx="38" cy="18" r="5" fill="#e3b341"/>
<circle cx="56" cy="18" r="5" fill="#7ee787"/>
{drawn}
</svg>
"""


def _lines(page: str) -> Iterator[str]:
    for command, spans in _SCREENS:
        found = re.search(rf"^```\n\$ {command}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        if found is None:
            raise ValueError(f"the page has no screen of {command}")
        shown = found[1].splitlines()
        yield from () if command == _SCREENS[0][0] else ("",)
        yield f"$ {command}"
        last = 0
        for first_words, last_words in spans:
            start = next(i for i, one in enumerate(shown) if one.startswith(first_words))
            end = next(i for i, one in enumerate(shown) if one.startswith(last_words))
            if start > last:
                yield "…"
            yield from shown[start : end + 1]
            last = end + 1


def _text(line: str, y: int) -> str:
    """As wide as its letters are many, whatever the font."""
    at = len(line) - len(line.lstrip())
    width = (len(line) - at) * _CHARACTER
    text = escape(line, quote=False)
    for shape, name in _COLORS:
        text = shape.sub(rf'<tspan class="{name}">\g<0></tspan>', text)
    return (
        f'<text x="{_EDGE + at * _CHARACTER:g}" y="{y}" textLength="{width:g}" '
        f'xml:space="preserve">{text.strip()}</text>'
    )
