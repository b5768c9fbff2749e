"""A host for small programs: the tools that they find are the test's, in any of four shells."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from rigops.hostside.packing import pack
from tests.unit.hostside.forced import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TOOLS: Final = (
    "awk", "cat", "find", "grep", "head", "ls", "mktemp", "printf", "rm", "sed", "setsid", "sleep",
    "sort", "stat", "timeout", "tr", "wc",
)  # fmt: skip


class SmallHost:
    """`said` has what went to the journal, and `done` what a tool of the test's was told."""

    def __init__(self, root: Path, shell: Sequence[str]) -> None:
        self.root = root
        self.shell = path_of(shell)
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        applets = f"{self.shell[0]} " if shell[0] == "busybox" else ""
        for name in TOOLS:
            self.tool(name, f'exec {applets}{name if applets else shutil.which(name)} "$@"')
        self.tool("sh", f'exec {" ".join(self.shell)} "$@"')
        self.tool("logger", f'echo "== $*" >>"{root}/journal"\ncat >>"{root}/journal"')

    def tool(self, name: str, text: str) -> None:
        """Never a link: what is written to one is written to the machine's own program."""
        path = self.bin / name
        assert not path.is_symlink()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def real(self, name: str) -> None:
        found = sys.executable if name == "python3" else shutil.which(name)
        assert found
        self.tool(name, f'exec {found} "$@"')

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
        self, text: str, *words: str, given: bytes = b"", timeout: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.shell, "-c", text, "program", *words, str(self.root)],
            input=given,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={"PATH": str(self.bin)},
        )
