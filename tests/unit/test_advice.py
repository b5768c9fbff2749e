"""No advice of ours takes cards from containers, as every reload of systemd does.

`systemctl enable` and its like reload systemd when they are done, unless `--no-reload` is there.
`unmask` and `revert` are advised as they are: without a reload systemd would not start the unit.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
DATA = sorted((TOP / "src/rigops/catalog/data").glob("*.toml"))
PROGRAMS = sorted((TOP / "src/rigops").rglob("*.py"))
# The page that explains what a reload does to containers has to name it.
EXPLAINS = {"containers.md", "nvml-unknown-error.md"}

ADVISED = re.compile(
    r"(?:`|sudo |then: )systemctl(?: -\S+)* "
    r"(?:enable|disable|reenable|mask|preset|link|set-default|daemon-re(?:load|exec))\b[^`\n]*"
)


def advice(text: str) -> list[str]:
    found = (one[0] for one in ADVISED.finditer(text))
    return [one for one in found if "--no-reload" not in one and "--user" not in one]


def texts_of(program: Path) -> Iterator[str]:
    """Its strings, with * in place of what is put into them."""
    text = program.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "systemctl" in text else ():
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "*" for one in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "text",
    [
        "sudo systemctl disable --now lactd",
        "try `systemctl enable nvidia-persistenced`",
        "# then: systemctl enable --now a.service",
        "`systemctl daemon-reload`",
    ],
)
def test_advice_that_reloads_is_found(text: str) -> None:
    assert advice(text)


@pytest.mark.parametrize(
    "text",
    [
        "`systemctl enable --now --no-reload nvidia-persistenced`",
        "`systemctl restart nvidia-cdi-refresh`",
        "sudo systemctl unmask a.service",
        "`systemctl --user enable --now a.service`",
        "systemctl disable and enable reload systemd",
    ],
)
def test_other_words_on_systemd_are_not(text: str) -> None:
    assert advice(text) == []


def test_no_page_and_no_entry_of_the_catalog_advises_a_reload() -> None:
    found = {
        (path.name, one)
        for path in (*PAGES, *DATA)
        if path.name not in EXPLAINS
        for one in advice(path.read_text(encoding="utf-8"))
    }

    assert found == set()


def test_no_text_of_a_finding_or_a_plan_advises_a_reload() -> None:
    found = {
        (path.name, one) for path in PROGRAMS for text in texts_of(path) for one in advice(text)
    }

    assert found == set()
