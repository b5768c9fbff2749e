"""Joins a POSIX sh program with the files it includes by a line `. ./shared/NAME.sh`.

An include is resolved against hostside/, wherever the file lies that has the line.
Files of the host, such as /etc/os-release, are read where the program runs. A line
`name=@MODULE.CONSTANT@` gets the text of that constant, from a module beside the program.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

from rigops.hostside.packing.python import Place

_INCLUDE_LIKE = re.compile(
    r"(^|[;&|({]|\b(then|do|else)\b)\s*(\.|source)\s+[\"']?\.{1,2}/",
)
_INCLUDE = re.compile(r"\. \./(?P<file>([\w-]+/)*[\w-]+\.sh)\s*(#.*)?")
_SOURCE_DIRECTIVE = re.compile(r"# shellcheck source=.*")
_CONSTANT = re.compile(r"(?P<name>\w+)=@(?P<module>\w+)\.(?P<constant>\w+)@")
_SHELL_DIRECTIVE = re.compile(r"# shellcheck shell=.*")  # an error anywhere but at the top


def join(program: str, path: Path, folder: Path) -> str:
    """`folder`: where includes are found."""
    return "\n".join(_Join(program, folder).lines_of(path.name, path)).rstrip("\n") + "\n"


class _Join:
    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._chain: list[str] = []
        self._done: set[str] = set()

    def lines_of(self, file: str, path: Path) -> list[str]:
        included = bool(self._chain)
        self._chain.append(file)
        joined: list[str] = []
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            is_shebang = number == 1 and line.startswith("#!")
            if included and (is_shebang or _SHELL_DIRECTIVE.match(line)):
                continue
            if constant := _CONSTANT.fullmatch(line):
                text = _constant(constant, Place(self._program, file, path, number))
                joined.append(f"{constant['name']}={shlex.quote(text)}")
                continue
            if line.lstrip().startswith("#") or not _INCLUDE_LIKE.search(line):
                joined.append(line)
                continue
            if joined and _SOURCE_DIRECTIVE.match(joined[-1]):
                joined.pop()
            joined += self._included(line, Place(self._program, file, path, number))
        self._chain.pop()
        self._done.add(file)
        return joined

    def _included(self, line: str, place: Place) -> list[str]:
        include = _INCLUDE.fullmatch(line)
        if include is None:
            raise place.refusal("an include is a line of its own, such as `. ./shared/log.sh`")
        file = include["file"]
        if not (self._folder / file).is_file():
            raise place.refusal(f"there is no {file} in {self._folder}")
        if file in self._chain:
            raise place.refusal(f"includes go in a circle: {' -> '.join([*self._chain, file])}")
        return [] if file in self._done else self.lines_of(file, self._folder / file)


def _constant(wanted: re.Match[str], place: Place) -> str:
    module = place.file.with_name(f"{wanted['module']}.py")
    for one in ast.parse(module.read_text(encoding="utf-8")).body:
        if (
            isinstance(one, ast.AnnAssign)
            and ast.unparse(one.target) == wanted["constant"]
            and isinstance(one.value, ast.Constant)
        ):
            return str(one.value.value)
    raise place.refusal(f"{module.name} has no text {wanted['constant']}")
