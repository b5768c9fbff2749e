"""Rules that import-linter cannot see, because deploys are run by path and never imported."""

from __future__ import annotations

import ast
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOYS = ROOT / "deploys"
ALLOWED = {"concerns", "assets"}
# What prints, or makes escape sequences; `click.confirm` and `click.prompt` take cleaned text.
PRINTS = {"print", "echo", "echo_via_pager", "secho", "style", "pause", "progressbar", "clear"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
# The one way to the terminal; a tool of developers; programs of hosts.
MAY_PRINT = (
    "report/terminal.py",
    "catalog/refresh.py",
    "hostside/",
    "concerns/thermal_guard/guard/",
    "concerns/thermal_guard/thermal_guard.py",
    "concerns/monitoring/self_check.py",
    "concerns/borg/borg.py",
    "concerns/borg/host/",
    "concerns/snapshots/host/",
    "concerns/snapshots/snapshots.py",
    "backup/host/",
)


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


def test_no_modules_import_each_other_not_even_for_types() -> None:
    graph = grimp.build_graph("rigops")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    assert "rigops.cli.main" in tuple(TopologicalSorter(imports).static_order())


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


def ways_to_print(source: str) -> list[str]:
    """What could write to the terminal without `report.terminal`; programs that inherit it, too."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                found.append("print")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr=name)) if (
                name in PRINTS
            ):
                found.append(f"click.{name}")
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="sys"), attr=stream),
                attr="write" | "writelines" | "buffer",
            ) if stream in STREAMS:
                found.append(f"sys.{stream}")
            case ast.Attribute(value=ast.Name(id="sys"), attr="__stdout__" | "__stderr__" as name):
                found.append(f"sys.{name}")
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="subprocess"), attr=name), keywords=given
            ) if name != "TimeoutExpired" and not {"stdout", "stderr"} <= _streams(given):
                found.append(f"subprocess.{name}")
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="os"), attr="write"),
                args=[ast.Constant(value=1 | 2), *_],
            ):
                found.append("os.write")
            case ast.ImportFrom(module="click", names=names):
                found += [f"click.{one.name}" for one in names if one.name in PRINTS]
    return found


def _streams(given: list[ast.keyword]) -> set[str | None]:
    names = {keyword.arg for keyword in given}
    return names | STREAMS if "capture_output" in names else names


def test_only_one_module_writes_to_the_terminal() -> None:
    package = ROOT / "src/rigops"
    sources = {
        str(path.relative_to(package)): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
    }

    assert {
        name: found
        for name in sources
        if not name.startswith(MAY_PRINT) and (found := ways_to_print(sources[name]))
    } == {}


@pytest.mark.parametrize(
    "line",
    [
        "print(1)",
        "click.echo(1)",
        "click.style(1)",
        "from click import confirm, secho",
        "sys.stderr.write(1)",
        "sys.stdout.buffer.write(1)",
        "print_to(sys.__stderr__)",
        "os.write(2, b'')",
        "subprocess.run(['ls'])",
        "subprocess.Popen(['ls'], stdout=subprocess.PIPE)",
    ],
)
def test_a_way_around_it_is_seen(line: str) -> None:
    assert ways_to_print(line)


def test_a_suppression_says_why() -> None:
    bare = re.compile(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[a-z-]+\])$", re.MULTILINE)
    folders = (ROOT / name for name in ("src", "tests", "benchmarks", "deploys"))
    files = (one for folder in folders for one in folder.rglob("*.py"))

    assert [str(one) for one in files if bare.search(one.read_text(encoding="utf-8"))] == []
