"""What stands above the first `== ` of a compound section, where nothing should."""

from __future__ import annotations

from rigops.probe.text import lines

_HEAD = "== "


def stray(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for line in lines(text):
        if line.startswith(_HEAD):
            break
        if line.strip():
            found.append(line)
    return tuple(found)
