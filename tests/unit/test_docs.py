"""The documentation says what the code does."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rigops.catalog import load
from rigops.concerns import registry
from tests.lab import test_attack_planted
from tests.unit.forks import RIGOPS, forked

ROOT = Path(__file__).resolve().parents[2]


def _page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_concern_has_a_page_and_a_row_with_its_keys() -> None:
    page = _page("docs/reference/concerns.md")
    for concern in registry.in_this_version():
        assert f"| `{concern.name}` | `{concern.keys[0].name}`" in page
        assert (ROOT / f"docs/how-to/{concern.name}.md").is_file()


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_help_names_the_concerns_and_those_that_are_not_in_this_version(command: str) -> None:
    said = " ".join(forked(RIGOPS, command, "--help").out.split())  # it brings gevent

    able = [one.name for one in registry.in_this_version()]
    coming = [one.name for one in registry.CONCERNS if not one.is_in_this_version]
    assert f"Only these concerns: {', '.join(able)}." in said
    assert (f"Not in this version: {', '.join(coming)}." in said) is bool(coming)


def test_the_words_of_every_board_are_documented() -> None:
    page = _page("docs/how-to/bios.md")
    for entry in load().firmware:
        assert entry.seen.replace("|", "\\|") in page
        for board in entry.boards:
            assert f"| {', '.join(board.words)} | {board.place or 'differs'}" in page


def test_every_promise_of_the_security_page_cites_tests_that_exist() -> None:
    page = _page("docs/explanation/security.md")
    table = page.split("## Promises")[1].split("## ")[0]
    promises = [line for line in table.splitlines() if line.startswith("| ")][1:]
    cited = re.findall(r"`(tests/[a-z0-9_/]+\.py)(?:::(test_\w+))?`", page)

    assert [line for line in promises if "`tests/" not in line.split(" | ")[2]] == []
    assert [path for path, _ in cited if not (ROOT / path).is_file()] == []
    assert [
        f"{path}::{name}" for path, name in cited if name and f"def {name}(" not in _page(path)
    ] == []
    assert len(cited) >= len(promises) > 0


def test_the_security_page_names_every_program_that_runs_as_root() -> None:
    rows = _page("docs/explanation/security.md").split("## Paths")[1].split("\n## ")[0].splitlines()
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    package = ROOT / "src/rigops"
    files = [*package.glob("hostside/*.*"), *package.glob("concerns/*/*.*")]
    programs = {one.stem for one in files if one.read_bytes().startswith(b"#!")}

    assert {"snapshots", "borg", "lock"} <= programs
    assert programs - named == set()


def test_the_security_page_and_the_lab_name_the_same_paths_in_homes() -> None:
    page = _page("docs/explanation/security.md")
    named = set(re.findall(r"`(~/[^`]*)`", page.split("## Paths")[1]))
    planted = {f"~/{one}" for one in test_attack_planted.IN_HOMES}

    assert [one for one in planted if not any(fnmatch(one, name) for name in named)] == []
    assert [name for name in named if not any(fnmatch(one, name) for one in planted)] == []


def test_whatever_says_what_to_declare_has_the_form_of_an_inventory() -> None:
    """`"driver": "535"`, which a dict takes, and not `driver = "535"`."""
    keys = "|".join(registry.keys())
    assigned = re.compile(rf"(?:declare|write|add|drop|fix:)(?: a)? [`'\"]*(?:{keys}) = ")
    pages = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]

    assert {str(one) for one in pages if assigned.search(one.read_text(encoding="utf-8"))} == set()
