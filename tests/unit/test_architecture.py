"""Rules that import-linter cannot see, because deploys are run by path and never imported."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

DEPLOYS = Path(__file__).resolve().parents[2] / "deploys"
ALLOWED = {"concerns", "assets"}


def foreign_imports(source: str) -> list[str]:
    """What a deploy imports beyond pyinfra, the standard library and its part of rigops."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "."
            direct = module == "rigops"
            modules += [f"rigops.{alias.name}" for alias in node.names] if direct else [module]
    return [module for module in modules if not _is_allowed(module.split("."))]


def _is_allowed(parts: list[str]) -> bool:
    if parts[0] == "rigops":
        return len(parts) > 1 and parts[1] in ALLOWED
    return parts[0] in {"pyinfra", "__future__"} or parts[0] in sys.stdlib_module_names


def package_of(module: str) -> str:
    """A folder of rigops, of concerns each, or a module that is in none."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[0] == "concerns" else parts[:1])


def test_no_packages_import_each_other_not_even_for_types() -> None:
    graph = grimp.build_graph("rigops")
    above: dict[str, set[str]] = {}
    for module in graph.modules - {"rigops", "rigops.concerns"}:
        for imported in graph.find_modules_directly_imported_by(module) - {"rigops"}:
            if package_of(imported) != package_of(module):
                above.setdefault(package_of(module), set()).add(package_of(imported))

    assert "cli" in tuple(TopologicalSorter(above).static_order())


def test_deploys_import_only_what_deploys_may() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in DEPLOYS.glob("*.py")}

    assert {name: found for name in sources if (found := foreign_imports(sources[name]))} == {}


@pytest.mark.parametrize(
    ("line", "foreign"),
    [
        ("from rigops.transport import connect", ["rigops.transport"]),
        ("from rigops import catalog, concerns", ["rigops.catalog"]),
        ("import paramiko", ["paramiko"]),
        ("import rigops", ["rigops"]),
        ("def f():\n    import rigops.cli.main", ["rigops.cli.main"]),
        (
            "from rigops.concerns.deploying import deploy\nfrom pyinfra.context import host",
            [],
        ),
    ],
)
def test_a_foreign_import_is_seen_wherever_it_stands(line: str, foreign: list[str]) -> None:
    assert foreign_imports(line) == foreign
