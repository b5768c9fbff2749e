"""A host for small programs: the tools that they find are the test's, in any shell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from rigops.hostside.packing import pack
from tests.unit.hostside.waiting import PATIENCE_S
from tests.unit.programs import shell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TOOLS: Final = (
    "awk", "cat", "find", "grep", "head", "ls", "mkdir", "mktemp", "mv", "printf", "rm", "sed",
    "setsid", "sleep", "sort", "stat", "timeout", "tr", "wc",
)  # fmt: skip


class SmallHost:
    """`said` has what went to the journal, and `done` what a tool of the test's was told."""

    def __init__(self, root: Path, shell_name: str) -> None:
        self.root = root
        self.shell = shell(shell_name)
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        for name in TOOLS:
            self._link(name, self.shell[0] if shell_name == "busybox" else shutil.which(name))
        self._link("sh", self.shell[0])
        self.tool("logger", f'echo "== $*" >>"{root}/journal"\ncat >>"{root}/journal"')

    def tool(self, name: str, text: str) -> None:
        """Instead of a link to the machine's own program, never through it."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        with path.open("x") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def real(self, name: str) -> None:
        self._link(name, sys.executable if name == "python3" else shutil.which(name))

    def _link(self, name: str, program: str | None) -> None:
        assert program
        (self.bin / name).symlink_to(program)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    @property
    def journal(self) -> str:
        file = self.root / "journal"
        return file.read_text() if file.exists() else ""

    def text(self, program: str, limits: Mapping[str, int]) -> str:
        """The packed program, bound to these tools and with these limits of its own."""
        text, paths = re.subn(r"(?m)^( +)PATH=\S+$", rf"\1PATH={self.bin}", pack(program).text)
        assert paths == 1
        for name, value in limits.items():
            text, found = re.subn(rf"(?m)^{name}=\d+", f"{name}={value}", text)
            assert found == 1
        return text

    def run(
        self, text: str, *words: str, given: bytes = b"", pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.shell, "-c", text, "program", *words, str(self.root)],
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env={"PATH": str(self.bin)},
            pass_fds=pass_fds,
        )
