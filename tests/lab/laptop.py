"""Where rigops is run from in tests: a folder with an inventory and a state directory."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import version_0_1
from tests.lab import clients, namespace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RIGOPS = ("-m", "rigops")

Finding = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What doctor says of one host, in its JSON."""

    host: Mapping[str, Any]

    @property
    def findings(self) -> list[Finding]:
        found: list[Finding] = self.host["findings"]
        return found

    def of(self, check: str) -> list[Finding]:
        return [one for one in self.findings if one["id"] == check]

    def one(self, check: str) -> Finding:
        (found,) = self.of(check)
        return found

    def ids(self, *statuses: str) -> set[str]:
        return {one["id"] for one in self.findings if one["status"] in statuses}

    def verdicts(self) -> list[tuple[str, str, str]]:
        return [(one["id"], one["status"], one["subject"]) for one in self.findings]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str
    seconds: float

    def json(self) -> Any:
        return version_0_1.parsed(self.out)

    def seen(self, name: str = "") -> Seen:
        """One host of several, or the only one."""
        hosts = [one for one in self.json()["hosts"] if name in {"", one["host"]}]
        (host,) = hosts
        return Seen(host)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    began: float

    def wait(self, timeout: float = 300) -> Said:
        try:
            out, err = self.process.communicate(timeout=timeout)
        finally:
            self.end()
        return Said(self.process.returncode, out, err, time.monotonic() - self.began)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


@dataclass(frozen=True)
class Laptop:
    """`ssh`: what is this person's ~/.ssh, of which OpenSSH asks the user's entry and not HOME."""

    folder: Path
    ssh: Path | None = None

    def declare(self, hosts: Mapping[str, Mapping[str, object]]) -> None:
        """An inventory of these hosts; the lab's own ssh files find them."""
        files = {"ssh_config_file": str(clients.config())}
        rigs = [(name, {**files, **data}) for name, data in hosts.items()]
        (self.folder / "inventory.py").write_text(f"rigs = {rigs!r}\n")

    def rigops(self, *arguments: str, timeout: float = 300) -> Said:
        return self.start(*arguments).wait(timeout)

    def start(self, *arguments: str, program: Sequence[str] = RIGOPS) -> Running:
        """`program`: what is called as rigops."""
        process = subprocess.Popen(
            self.at_home([sys.executable, *program, *arguments]),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )
        return Running(process, time.monotonic())

    def doctor(self, *arguments: str, timeout: float = 300) -> Said:
        return self.rigops("doctor", "--json", *arguments, timeout=timeout)

    def at_home(self, command: list[str]) -> list[str]:
        if self.ssh is None:
            return command
        home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
        home.mkdir(mode=0o700, exist_ok=True)
        bind = shlex.join(["mount", "--bind", str(self.ssh), str(home)])
        return namespace.enter([bind, f"exec {shlex.join(command)}"])

    def environment(self) -> dict[str, str]:
        own = {"XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"}
        return {**os.environ, **{name: str(self.folder / one) for name, one in own.items()}}
