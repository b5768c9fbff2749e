"""Fixtures for tests against booted hosts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.lab import cache, hosts, packages, rigs
from tests.lab.requirements import lacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.hosts import Host

_numbers = count(1)


class Lab:
    """Boots rigs for one test, or for one module's, and ends them with it."""

    def __init__(self) -> None:
        self._up: list[str] = []

    def up(self, *words: str) -> list[Host]:
        """RIG[=NAME]… [KEY=VALUE]…; hosts without a name get one that no other run has."""
        booted = hosts.up([self._named(word) for word in words])
        self._up += [host.name for host in booted]
        return booted

    def one(self, *words: str) -> Host:
        (host,) = self.up(*words)
        return host

    def _named(self, word: str) -> str:
        return f"{word}={word}-{os.getpid()}-{next(_numbers)}" if word in rigs.names() else word

    def end(self) -> None:
        hosts.end(self._up)


def _lab() -> Iterator[Lab]:
    if reason := lacks():
        pytest.skip(f"lab tier: {reason}")
    lab = Lab()
    yield lab
    lab.end()


@pytest.fixture
def lab() -> Iterator[Lab]:
    yield from _lab()


@pytest.fixture(scope="module")
def module_lab() -> Iterator[Lab]:
    yield from _lab()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The lab's packages, for trees that nobody boots."""
    reason = lacks() or (None if shutil.which("gcc") else "gcc is not installed")
    if reason:
        pytest.skip(f"lab tier: {reason}")
    return packages.repository(cache.folder())


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh-agent, named by SSH_AUTH_SOCK."""
    path = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    try:
        while not path.exists():
            assert process.poll() is None
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
