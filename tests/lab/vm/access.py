"""Ways into a machine: its port, the files with which ssh finds it by name, and waiting for it."""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab import cache
from tests.lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.processes import Process

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Access:
    """One machine; its ssh files lie in a folder of their own."""

    port: int
    host_key: str
    folder: Path
    name: str = "machine"

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    def write(self) -> None:
        known = self.folder / "known_hosts"
        known.write_text(f"[{ADDRESS}]:{self.port} {self.host_key}\n")
        self.config.write_text(f"""\
Host {self.name}
    HostName {ADDRESS}
    Port {self.port}
    User root
    IdentityFile {cache.key()}
    IdentitiesOnly yes
    StrictHostKeyChecking yes
    UserKnownHostsFile {known}
    GlobalKnownHostsFile /dev/null
""")

    def command(self, user: str, *words: str) -> list[str]:
        return ["ssh", "-F", str(self.config), *words, f"{user}@{self.name}"]

    def run(
        self, command: str, *, user: str = "root", given: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command(user, "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"), command],
            check=False,
            capture_output=True,
            text=True,
            input=given,
            timeout=timeout,
        )

    def ssh(self, command: str, *, user: str = "root", timeout: float = 120) -> str:
        """What it prints; a command that fails is an error."""
        done = self.run(command, user=user, timeout=timeout)
        if done.returncode != 0:
            said = f"{done.stdout}{done.stderr}".strip()
            raise LabError(f"{self.name}: {command} ended with {done.returncode}: {said}")
        return done.stdout.strip()

    def answers(self) -> bool:
        """QEMU itself takes a connection at once; only the machine's sshd says anything."""
        try:
            with socket.create_connection((ADDRESS, self.port), timeout=5) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def wait(self, machine: Process, deadline: float) -> None:
        until = time.monotonic() + deadline
        while not self.answers():
            if not machine.lives():
                raise LabError(f"{self.name} has ended")
            if time.monotonic() > until:
                raise LabError(f"{self.name} does not answer after {deadline:.0f} s")
            time.sleep(0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port
