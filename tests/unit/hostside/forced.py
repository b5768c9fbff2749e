"""A tree for programs that reboot by force: whatever they may find in it is the test's."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from rigops.hostside.packing import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SHELLS: Final = (("dash",), ("bash",), ("mksh",), ("busybox", "sh"))
SLEEP: Final = shutil.which("sleep")


class Tree:
    """A machine of its own. Nothing of the real one can be reached from here."""

    def __init__(
        self, root: Path, shell: Sequence[str], *, folders: Sequence[str], harmless: Sequence[str]
    ) -> None:
        self.root = root
        self.shell = shell
        for folder in ("proc/1", "dev", "bin", *folders):
            (self.root / folder).mkdir(parents=True)
        (self.root / "proc/1/environ").write_bytes(b"PATH=/bin\0HOME=/\0")
        for name in harmless:
            self._program(name, f'exec {shutil.which(name)} "$@"')
        for name in ("reboot", "sync", "logger"):
            self.command(name)

    def command(self, name: str, does: str = "") -> None:
        self._program(name, f'echo "{name} $*" >>"{self.root}/done"\n{does}')

    def _program(self, name: str, text: str) -> None:
        """Never a link: what is written to one is written to the machine's own program."""
        path = self.root / "bin" / name
        assert not path.is_symlink()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def done(self) -> list[str]:
        """Without what was only said or waited for."""
        said = (self.root / "done").read_text().splitlines()
        return [line.strip() for line in said if not line.startswith(("logger", "sleep"))]

    def sysrq(self) -> int:
        """What is told to it can be read here."""
        os.mkfifo(self.root / "proc/sysrq-trigger")
        return os.open(self.root / "proc/sysrq-trigger", os.O_RDWR | os.O_NONBLOCK)

    def text(self, program: str, limits: Mapping[str, int]) -> str:
        """The packed program, bound to this tree and with these limits of its own."""
        text, paths = re.subn(r"(?m)^( +)PATH=\S+$", rf"\1PATH={self.root}/bin", pack(program).text)
        assert paths == 1  # or it would reboot the machine that tests it
        for name, seconds in limits.items():
            text, found = re.subn(rf"(?m)^{name}_s=\d+$", f"{name}_s={seconds}", text)
            assert found == 1
        return text

    def run_text(self, text: str, seconds: int, *, patience: float) -> int | None:
        """How it ended; None where it had to be."""
        process = subprocess.Popen(
            [*self.shell, "-c", text, "program", str(seconds), str(self.root)],
            env={"PATH": f"{self.root}/bin"},
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
        code = process.poll()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return code


def path_of(shell: Sequence[str]) -> Sequence[str]:
    found = shutil.which(shell[0])
    if found is None:
        pytest.skip(f"{shell[0]} is not installed")
    return (found, *shell[1:])


def shellcheck_says(text: str) -> str:
    return subprocess.run(
        ["shellcheck", "--shell=sh", "-"], input=text, text=True, capture_output=True, check=False
    ).stdout
