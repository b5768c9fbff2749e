"""Real sshd servers of the tests' own, unprivileged where the tests are."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.transport import Target
from tests.lab import namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self  # from Python 3.11 on in typing

USER = pwd.getpwuid(os.getuid()).pw_name
PATIENCE = 120.0  # a hang is told from a machine with other work


def sshd_program() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def require_sshd() -> str:
    program = sshd_program()
    if program is None:
        pytest.skip("lab tier: openssh-server is not installed")
    return program


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    size = ["-b", "2048"] if kind == "rsa" else []
    keygen("-t", kind, *size, "-N", passphrase, "-f", str(path))
    return path


def keygen(*words: str) -> str:
    done = subprocess.run(
        ["ssh-keygen", "-q", *words], check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    return done.stdout.decode()


def public(key: Path) -> str:
    return key.with_name(key.name + ".pub").read_text()


def fingerprint_of(key: Path) -> str:
    return keygen("-l", "-f", str(key) + ".pub").split()[1]


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(words[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def is_running(pattern: str) -> bool:
    """Whether some process has this text in its arguments."""
    return bool(processes_with(pattern))


def processes_with(pattern: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if pattern.encode() in words:
                found.append(int(entry.name))
    return found


@dataclass
class Sshd:
    folder: Path
    options: tuple[str, ...] = ()
    key_types: tuple[str, ...] = ("ed25519",)
    mounts: tuple[str, ...] = ()  # what it does first, in a mount namespace of its own
    network: int | None = None  # a process in whose network it listens
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for kind in self.key_types:
            if not self.host_key(kind).exists():
                make_key(self.host_key(kind), kind=kind)
        self.authorized = self.folder / "authorized_keys"
        self.authorized.touch()

    def host_key(self, kind: str = "ed25519") -> Path:
        return self.folder / f"host_{kind}"

    def fingerprint(self, kind: str = "ed25519") -> str:
        return fingerprint_of(self.host_key(kind))

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def allow(self, key: Path) -> None:
        with self.authorized.open("a") as file:
            file.write(public(key))

    def known_line(self, kind: str = "ed25519") -> str:
        words = public(self.host_key(kind)).split()
        return f"[127.0.0.1]:{self.port} {words[0]} {words[1]}\n"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        program = require_sshd()
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        lines = [
            *self.options,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            *(f"HostKey {self.host_key(kind)}" for kind in self.key_types),
            f"PidFile {self.folder}/pid",
            f"AuthorizedKeysFile {self.authorized}",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
            "UseDNS no",
            "LogLevel VERBOSE",
            "SetEnv SHLVL=1",  # bash reads no .bashrc of the person who runs the tests
        ]
        config.write_text("\n".join(lines) + "\n")
        command = [program, "-D", "-e", "-f", str(config)]
        if self.mounts:
            command = namespace.enter([*self.mounts, f"exec {shlex.join(command)}"])
        if self.network is not None:
            command = ["nsenter", f"--net=/proc/{self.network}/ns/net", *command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        process = self.process
        until(
            lambda: "Server listening" in self.log.read_text() or process.poll() is not None, "sshd"
        )
        assert process.poll() is None, self.log.read_text()

    def sessions(self) -> list[int]:
        return descendants(self.process.pid) if self.process else []

    def cut(self) -> None:
        """As if the machine lost its power: every connection ends at once."""
        for pid in self.sessions():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process is None:
            return
        self.cut()
        self.process.terminate()
        self.process.wait()
        self.process = None


@dataclass
class Lab:
    """A server, a user's key that it takes, and that user's own ssh files."""

    folder: Path
    sshd: Sshd
    key: Path
    config: Path
    known_hosts: Path

    def target(self, **changes: object) -> Target:
        values: dict[str, object] = {
            "name": "rig",
            "hostname": "127.0.0.1",
            "port": self.sshd.port,
            "user": USER,
            "key": str(self.key),
            "config_file": str(self.config),
            "known_hosts_file": str(self.known_hosts),
            "allow_agent": False,
        }
        values.update(changes)
        return Target(**values)  # type: ignore[arg-type]  # the tests name real fields

    def trust(self) -> None:
        with self.known_hosts.open("a") as file:
            file.write(self.sshd.known_line())


def make_lab(folder: Path, sshd: Sshd) -> Lab:
    home = folder / "client"
    home.mkdir()
    key = make_key(home / "id")
    sshd.allow(key)
    config = home / "config"
    config.write_text("GlobalKnownHostsFile /dev/null\n")
    return Lab(folder, sshd, key, config, home / "known_hosts")


def lab_with(
    folder: Path,
    *options: str,
    key_types: tuple[str, ...] = ("ed25519",),
    trusted: bool = True,
    network: int | None = None,
) -> Iterator[Lab]:
    """For fixtures: a running server and a user who may log in."""
    require_sshd()
    with Sshd(folder / "server", options, key_types, network=network) as sshd:
        lab = make_lab(folder, sshd)
        if trusted:
            lab.trust()
        yield lab
