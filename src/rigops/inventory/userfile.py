"""Runs a Python file of the user, with the line number of each name and key."""

from __future__ import annotations

import ast
import contextlib
import sys
import traceback
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Final

from rigops import regular_file
from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError, usage_error

MOST_BYTES: Final = 16 * 1024 * 1024  # generated ones too have some hundred kilobytes
# What JSON, YAML and shells have for them.
_CONSTANTS: Final = {
    **dict.fromkeys(("true", "yes", "on"), "True"),
    **dict.fromkeys(("false", "no", "off"), "False"),
    **dict.fromkeys(("null", "none", "nil"), "None"),
}
_FIX: Final = "correct that line; an inventory is a Python file"


@dataclass
class Lines:
    """Line numbers of literals; computed values have none."""

    names: dict[str, int] = field(default_factory=dict)
    host_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    group_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    @classmethod
    def from_tree(cls, tree: ast.Module) -> Lines:
        lines = cls()
        for statement in tree.body:
            lines._read_statement(statement)
        for node in ast.walk(tree):
            lines._read_node(node)
        return lines

    def _read_statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import):
            self.imported |= {alias.asname or alias.name.split(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            self.imported |= {
                alias.asname or alias.name for alias in statement.names if alias.name != "*"
            }
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    self.names[target.id] = statement.lineno
                    match statement.value:
                        case ast.Tuple(elts=[_, ast.Dict() as data]):
                            self._read_keys(self.group_keys, target.id, data)

    def _read_node(self, node: ast.AST) -> None:
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(host)), ast.Dict() as data]):
                self._read_keys(self.host_keys, host, data)
            case ast.Name(id=name, ctx=ast.Load()):
                self.used.add(name)
            case ast.Import(names=names):
                self.modules |= {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                self.modules.add(module.split(".")[0])

    @staticmethod
    def _read_keys(into: dict[tuple[str, str], int], owner: str, data: ast.Dict) -> None:
        for key in data.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                into[owner, key.value] = key.lineno


@dataclass(frozen=True)
class Source:
    path: str
    digest: str
    lines: Lines
    code: CodeType = field(repr=False)


@dataclass(frozen=True)
class UserFile:
    path: str
    names: dict[str, object]
    lines: Lines


def read(path: Path, content: bytes | None = None) -> Source:
    """`content`: the file's, as it would be."""
    name = str(path)
    try:
        if content is None:
            content = regular_file.read(path, most=MOST_BYTES)
        tree = ast.parse(content.decode(), filename=name)
        code = compile(tree, name, "exec")
    except SyntaxError as error:
        raise usage_error(
            message=f"not valid Python: {error.msg}",
            file=name,
            line=error.lineno,
            value=(error.text or "").strip() or None,
            fix=_FIX,
        ) from error
    except UnicodeDecodeError as error:
        raise usage_error(
            message="not a UTF-8 text file", file=name, fix="save it as UTF-8 text"
        ) from error
    except ValueError as error:  # a NUL byte, before Python 3.12
        raise usage_error(message=f"not valid Python: {error}", file=name, fix=_FIX) from error
    except (MemoryError, RecursionError) as error:  # of the parser, within these bytes
        raise usage_error(message="nested too deeply", file=name, fix=_FIX) from error
    except OSError as error:
        message = f"unreadable: {error.strerror}"
        raise usage_error(message=message, file=name, fix="name a Python file") from error
    return Source(name, sha256(content).hexdigest(), Lines.from_tree(tree), code)


def execute(source: Source) -> UserFile:
    names: dict[str, object] = {"__file__": source.path}
    try:
        # An inventory's own output must not end up in our JSON.
        with contextlib.redirect_stdout(sys.stderr):
            exec(source.code, names)  # noqa: S102 - an inventory is the user's own Python program
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever that program raises, SystemExit too
        raise UsageError(_failure(source.path, error)) from error
    names.pop("__builtins__", None)
    return UserFile(source.path, names, source.lines)


def _failure(name: str, error: BaseException) -> Problem:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
    fix = "correct that line"
    if isinstance(error, ModuleNotFoundError):
        fix = (
            f"install {error.name!r} beside rigops, or put {error.name}.py into the "
            "folder that you start rigops in"
        )
    if isinstance(error, NameError):
        constant = _CONSTANTS.get(str(error.name).lower())
        spelled = "check the spelling of the name; put text in quotes"
        fix = f"write {constant}, as Python does" if constant else spelled
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's own exception
        text = "it cannot be shown"
    return Problem(
        message=f"failed to run: {type(error).__name__}: {text}",
        file=name,
        line=frames[-1].lineno if frames else None,
        value=(frames[-1].line or None) if frames else None,
        fix=fix,
    )
