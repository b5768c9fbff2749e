"""The screens of the README and of docs/ are what rigops prints, where lines left out are `…`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.forks import EXAMINES, RIGOPS, forked

ROOT = Path(__file__).resolve().parents[2]
FIRST_HOUR = ROOT / "docs/first-hour.md"  # a test of the lab compares it
PASTES = ROOT / "tests/fixtures/pastes"
PAGES = (
    "README.md",
    *(
        str(page.relative_to(ROOT))
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "symptoms"  # whose pastes are in the pages
    ),
)
_BLOCK = re.compile(r"^```\n\$ (rigops .*)\n((?:(?!```).*\n)+)```$", re.MULTILINE)


def screens(path: Path) -> list[tuple[str, str]]:
    """Each command and what it prints; none where only commands are shown."""
    found = _BLOCK.findall(path.read_text(encoding="utf-8"))
    return [(command, text) for command, text in found if not text.startswith("$ ")]


def printed(command: str, folder: Path) -> list[str]:
    """All that it was recorded to print; of others what it prints beside the README's inventory.

    Or beside the pastes of the tests.
    """
    if recorded := [text for known, text in screens(FIRST_HOUR) if known == command]:
        return recorded
    (text,) = re.findall(
        r"```python\n(# inventory\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    mistaken = text.replace('"kernel_args"', '"kernel_arg"')
    (folder / "inventory.py").write_text(mistaken if command == "rigops ssh-config" else text)
    words = command.split()[1:]
    done = forked(RIGOPS, *words, imported=EXAMINES, folder=PASTES if "--from" in words else folder)
    return [done.out + done.err]


def matches(shown: str, text: str) -> bool:
    parts = (
        r"(?:.*\n)*?" if line.strip() == "…" else f"{re.escape(line)}\n"
        for line in shown.splitlines()
    )
    return re.fullmatch("".join(parts), text) is not None


@pytest.mark.parametrize(
    ("page", "command", "shown"),
    [
        pytest.param(page, *screen, id=f"{page} {screen[0]}")
        for page in PAGES
        if ROOT / page != FIRST_HOUR
        for screen in screens(ROOT / page)
    ],
)
def test_a_screen_is_what_is_printed(page: str, command: str, shown: str, tmp_path: Path) -> None:
    found = printed(command, tmp_path)

    assert any(matches(shown, text) for text in found), f"{page}:\n{found[0]}"


def test_a_line_that_is_not_printed_is_found() -> None:
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("a\nc\n", "a\nb\nc\n")
