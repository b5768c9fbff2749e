"""A tree for programs that reboot by force: whatever they may find in it is the test's."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rigops.hostside.packing import pack
from tests.unit.hostside.waiting import PATIENCE_S, until
from tests.unit.programs import put_program, shell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SLEEP: Final = shutil.which("sleep")
HANGS: Final = f"exec {SLEEP} 600"
UPTIME: Final = 1000


class Tree:
    """A machine of its own. Nothing of the real one can be reached from here.

    Its clock begins at UPTIME, and each sleep takes 1 s of it: what a test waits for does not
    depend on how busy the real machine is.
    """

    def __init__(
        self, root: Path, shell_name: str, *, folders: Sequence[str], harmless: Sequence[str]
    ) -> None:
        self.root = root
        self.shell = shell(shell_name)
        for folder in ("proc/1", "dev", "bin", *folders):
            (self.root / folder).mkdir(parents=True)
        (self.root / "proc/1/environ").write_bytes(b"PATH=/bin\0HOME=/\0")
        (self.root / "proc/uptime").write_text(f"{UPTIME}.50 1.0\n")
        for name in harmless:
            put_program(self.root / "bin" / name, f'exec {shutil.which(name)} "$@"')
        for name in ("reboot", "sync", "logger"):
            self.command(name)
        self.at_each_sleep("")

    def command(self, name: str, does: str = "") -> None:
        put_program(self.root / "bin" / name, f'echo "{name} $*" >>"{self.root}/done"\n{does}')

    def at_each_sleep(self, does: str) -> None:
        """What happens then, with the new time as $now."""
        clock = self.root / "proc/uptime"
        tick = f'read -r now _ <{clock}\nnow=$((${{now%%.*}} + 1))\necho "$now.50 1.0" >{clock}'
        beside = f"[ $1 != 60 ] || {HANGS}"  # who sleeps for ever takes no time of the others
        self.command("sleep", f"{beside}\n{tick}\n{does}\nexec {SLEEP} 0.005")

    @property
    def done(self) -> list[str]:
        """Without what was only said or waited for."""
        file = self.root / "done"
        said = file.read_text().splitlines() if file.exists() else []
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

    @contextmanager
    def running(self, text: str, seconds: int) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [*self.shell, "-c", text, "program", str(seconds), str(self.root)],
            env={"PATH": f"{self.root}/bin"},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run_text(self, text: str, seconds: int) -> int:
        """How it ended, which it has to by itself."""
        with self.running(text, seconds) as process:
            return process.wait(timeout=PATIENCE_S)

    def done_at(self, uptime: int, text: str, seconds: int) -> list[str]:
        """What the program has done by then; it is ended while it sleeps on."""
        there = self.root / "there"
        self.at_each_sleep(f'[ "$now" -lt {uptime} ] || {{ : >{there}; {HANGS}; }}')
        with self.running(text, seconds) as process:
            until(there.exists)
            assert process.poll() is None
            return self.done
