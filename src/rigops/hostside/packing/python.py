"""Joins a Python program and the rigops modules it imports into one flat text for Python 3.8.

Nothing is executed. Every module is read once, before what imports it, and names stay as they
are: that is why two modules may not define the same one. `if TYPE_CHECKING:` blocks are left
out, and annotations are never evaluated. Faults that only an old interpreter finds, such as a
newer function of the standard library, are left to tests that run the packed text.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError

OLDEST = (3, 8)
_NEWER_THAN_OLDEST = {"annotationlib", "compression", "graphlib", "tomllib", "zoneinfo"}
_STANDARD = sys.stdlib_module_names - _NEWER_THAN_OLDEST

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_OwnScope = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Place:
    program: str
    module: str
    file: Path
    line: int

    def refusal(self, why: str) -> RigopsError:
        return RigopsError(
            Problem(
                message=f"{self.program} cannot be packed: {self.module}, line {self.line}: {why}",
                file=str(self.file),
                line=self.line,
            ),
        )


def join(program: str, path: Path, root: Path) -> str:
    return _Join(program, root).text(path)


@dataclass(frozen=True)
class _Module:
    program: str
    name: str
    path: Path
    lines: Sequence[str]
    statements: Sequence[ast.stmt]

    def at(self, node: ast.stmt | ast.expr) -> Place:
        return Place(self.program, self.name, self.path, node.lineno)


@dataclass(frozen=True)
class _Binding:
    name: str
    origin: str  # what an import brings; "" for what the module defines itself
    node: ast.stmt | ast.expr


class _Join:
    def __init__(self, program: str, root: Path) -> None:
        self._program = program
        self._root = root
        self._chain: list[str] = []
        self._offered: dict[str, frozenset[str]] = {}  # the names of every module already read
        self._owners: dict[str, tuple[_Module, str]] = {}
        self._texts: dict[str, str] = {}

    def text(self, path: Path) -> str:
        module = self._read(f"rigops.hostside.{self._program}", path)
        heading = _heading_length(module)
        self._include(module, heading)
        parts = ["\n".join(module.lines[:heading]), "from __future__ import annotations"]
        for name, text in self._texts.items():
            parts.append(text if len(self._texts) == 1 else f"# ---- {name} ----\n{text}")
        return "\n\n".join(filter(None, parts)) + "\n"

    def _read(self, name: str, path: Path) -> _Module:
        source = path.read_text(encoding="utf-8")
        try:
            tree = ast.parse(source, feature_version=OLDEST)
        except SyntaxError as error:
            place = Place(self._program, name, path, error.lineno or 1)
            raise place.refusal(f"{error.msg} (the oldest Python on a host is 3.8)") from error
        return _Module(self._program, name, path, source.split("\n"), tree.body)

    def _include(self, module: _Module, skipped: int = 0) -> None:
        self._chain.append(module.name)
        dropped = set(range(skipped))
        names: set[str] = set()
        for statement in module.statements:
            if isinstance(statement, ast.ImportFrom) and _is_ours(statement.module):
                names |= self._follow(module, statement)
                dropped |= _with_blank_lines_after(module, statement)
            elif _is_left_out(statement):
                dropped |= _with_blank_lines_after(module, statement)
            else:
                self._check(module, statement)
                names |= self._claim(module, statement)
        self._chain.pop()
        self._offered[module.name] = frozenset(names)
        kept = [line for number, line in enumerate(module.lines) if number not in dropped]
        self._texts[module.name] = "\n".join(kept).strip("\n")

    def _follow(self, module: _Module, statement: ast.ImportFrom) -> set[str]:
        place = module.at(statement)
        name = statement.module or ""
        if any(alias.asname or alias.name == "*" for alias in statement.names):
            raise place.refusal(f"import the names of {name} one by one and as they are")
        if name in self._chain:
            raise place.refusal(f"imports go in a circle: {' -> '.join([*self._chain, name])}")
        if name not in self._offered:
            self._include(self._read(name, self._find(name, place)))
        wanted = {alias.name for alias in statement.names}
        if absent := wanted - self._offered[name]:
            raise place.refusal(f"{name} does not define {', '.join(sorted(absent))}")
        return wanted

    def _find(self, name: str, place: Place) -> Path:
        folder = self._root.joinpath(*name.split(".")[1:])
        for path in (folder.with_suffix(".py"), folder / "__init__.py"):
            if path.is_file():
                return path
        raise place.refusal(f"there is no module {name}")

    def _check(self, module: _Module, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = ["" if node.level else node.module or ""]
            for name in names:
                if name.partition(".")[0] not in _STANDARD:
                    raise module.at(statement).refusal(
                        f"{name or 'a relative import'} is not in the standard library of Python "
                        "3.8; of rigops, import names one by one at the top level"
                    )

    def _claim(self, module: _Module, statement: ast.stmt) -> set[str]:
        names: set[str] = set()
        for binding in _bindings(statement):
            owner, origin = self._owners.setdefault(binding.name, (module, binding.origin))
            if owner is not module and (not origin or origin != binding.origin):
                raise module.at(binding.node).refusal(
                    f"{binding.name} already means something else in {owner.name}",
                )
            names.add(binding.name)
        return names


def _bindings(node: ast.AST) -> Iterator[_Binding]:
    """Yield what a statement binds at module level."""
    if isinstance(node, _Definition):
        yield _Binding(node.name, "", node)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield _Binding(alias.asname or top, alias.name if alias.asname else top, node)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield _Binding(alias.asname or alias.name, f"{node.module}:{alias.name}", node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield _Binding(node.id, "", node)
    elif not isinstance(node, _OwnScope):
        for child in ast.iter_child_nodes(node):
            yield from _bindings(child)


def _is_ours(name: str | None) -> bool:
    return (name or "").partition(".")[0] == "rigops"


def _is_left_out(statement: ast.stmt) -> bool:
    """A future import, or what is for type checkers only."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and ast.unparse(statement.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
    )


def _heading_length(program: _Module) -> int:
    """Count the lines that must stay first: shebang, leading comments, docstring."""
    match program.statements[:1]:
        case [ast.Expr(value=ast.Constant(value=str())) as docstring]:
            return _last_line(docstring)
    return sum(1 for _ in takewhile(lambda line: line.startswith("#"), program.lines))


def _with_blank_lines_after(module: _Module, statement: ast.stmt) -> set[int]:
    end = _last_line(statement)
    while end < len(module.lines) and not module.lines[end].strip():
        end += 1
    return set(range(statement.lineno - 1, end))


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
