"""Libraries of the lab that go before the C library's functions, made of the source beside this."""

from __future__ import annotations

import shlex
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import cache, machine

if TYPE_CHECKING:
    from tests.lab.hosts import Host


def library(name: str) -> Path:
    source = Path(__file__).with_name(f"{name}.c")

    def build(new: Path) -> None:
        command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(new / f"{name}.so"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"

    return cache.built(name, sha256(source.read_bytes()).hexdigest()[:16], build) / f"{name}.so"


def preload(host: Host, name: str) -> None:
    """In every program that the host starts from now on."""
    place = put(host, name)
    root = Path(f"/proc/{machine.leader(host.record)}/root")
    (root / "etc/ld.so.preload").write_text(f"{place}\n")


def put(host: Host, name: str) -> str:
    """Where it is on the host, for LD_PRELOAD of a single command."""
    place = f"/usr/lib/{name}.so"
    root = Path(f"/proc/{machine.leader(host.record)}/root")
    (root / place[1:]).write_bytes(library(name).read_bytes())
    return place
