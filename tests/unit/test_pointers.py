"""What rigops prints names no file of the checkout that an installed rigops does not have."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ("src", "templates", "deploys")
NOT_INSTALLED = ("docs", "inventory", "tests", "benchmarks")
WORD = re.compile(r"[\w.-]+(?:/[\w.-]*)*")
# The catalog cites others; a README is for people who read the tree.
PRINTED = [
    path
    for folder in INSTALLED
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix not in {".toml", ".md", ".pyc"}
]


def pointers(text: str) -> list[str]:
    words = (word.rstrip(".") for word in WORD.findall(text))
    return [word for word in words if word.startswith("docs/") or is_left_out(word)]


def is_left_out(word: str) -> bool:
    folder, slash, _ = word.partition("/")
    named = folder in NOT_INSTALLED if slash else word == "Makefile" or word.endswith(".md")
    return named and (ROOT / word).is_file()


def printable(text: str, suffix: str) -> Iterator[str]:
    """Of Python all strings but docstrings that nothing shows; of the rest all but comments."""
    if not pointers(text):
        return  # parsing takes longer
    if suffix != ".py":
        yield from (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        return
    tree = ast.parse(text)
    hidden = {id(one) for one in hidden_docstrings(tree, text)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in hidden
        ):
            yield node.value


def hidden_docstrings(tree: ast.Module, text: str) -> Iterator[ast.expr]:
    """Decorators make commands and checks, which show theirs, as programs show __doc__."""
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=[ast.Expr(value), *_]) if "__doc__" not in text:
                yield value
            case ast.FunctionDef(body=[ast.Expr(value), *_], decorator_list=[]):
                yield value
            case ast.ClassDef(body=[ast.Expr(value), *_], decorator_list=[]):
                yield value


@pytest.mark.parametrize("folder", INSTALLED)
def test_nothing_that_is_printed_names_a_file_that_is_not_installed(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {pointer}"
        for path in PRINTED
        if path.is_relative_to(ROOT / folder)
        for one in printable(path.read_text(encoding="utf-8"), path.suffix)
        for pointer in pointers(one)
    ]

    assert any(path.is_relative_to(ROOT / folder) for path in PRINTED)
    assert found == []


@pytest.mark.parametrize(
    ("suffix", "text", "pointer"),
    [
        (".py", 'print("see docs/vault.md.")', ["docs/vault.md"]),
        (".py", 'print(f"{host}: docs/{page}.md, README.md")', ["docs/", "README.md"]),
        (".py", '@command\ndef f():\n    """See tests/conftest.py."""', ["tests/conftest.py"]),
        (".py", '"""docs/vault.md"""\nprint(__doc__)', ["docs/vault.md"]),
        (".py", '"""docs/vault.md"""\n# docs/vault.md\ndef f():\n    """docs/vault.md"""', []),
        (".py", 'print("https://example.org/docs/vault.md, inventory.py, NOTES.md")', []),
        (".sh", "# docs/vault.md\necho docs/vault.md", ["docs/vault.md"]),
    ],
)
def test_a_pointer_is_found_where_it_is_shown(suffix: str, text: str, pointer: list[str]) -> None:
    assert [found for one in printable(text, suffix) for found in pointers(one)] == pointer
