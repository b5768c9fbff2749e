"""The pages by symptom, as a reader follows them: what they see, what doctor calls it, what to do.

On a page the first block of `text` is the paste. Blocks of `sh` are typed: `rigops` where the
inventory is, all else on the host, which the pages call rig. Blocks of `python` are declared.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER: Final = Path(__file__).parents[1] / "docs/symptoms"
INDEX: Final = FOLDER / "README.md"
HOST: Final = "rig"
_BLOCK: Final = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ID: Final = re.compile(r"`([a-z0-9]+(?:[._][a-z0-9]+)*)`")


@dataclass(frozen=True)
class Symptom:
    name: str
    text: str

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def paste(self) -> str:
        found: list[str] = re.findall(r"^```text\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return found[0]

    @property
    def pasted(self) -> set[str]:
        """What doctor calls it in the paste."""
        return self._ids("pasted")

    @property
    def on_the_host(self) -> set[str]:
        return self._ids("on the host")

    @property
    def in_other_lines(self) -> set[str]:
        return self._ids("other lines")

    def steps(self) -> Iterator[str | Mapping[str, object]]:
        """Each line that is typed, and each declaration."""
        for kind, block in _BLOCK.findall(self.text):
            if kind == "sh":
                yield from block.splitlines()
            elif kind == "python":
                yield ast.literal_eval(f"{{{block}}}")

    def _ids(self, where: str) -> set[str]:
        lines = re.findall(rf"^- {where}: (.*)$", self.text, re.MULTILINE)
        return {one for line in lines for one in _ID.findall(line)}


def read(name: str) -> Symptom:
    return Symptom(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.md") if path != INDEX)
