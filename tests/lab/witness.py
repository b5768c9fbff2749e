"""The words of every program that is started, on a host and by a controller."""

from __future__ import annotations

import shlex
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import cache, machine

if TYPE_CHECKING:
    from tests.lab.hosts import Host

_SOURCE = Path(__file__).with_name("witness.c")
_LIBRARY = "/usr/lib/witness.so"
_LOG = "/run/witness"
_ANYBODY = 0o666  # whoever starts a program


def watch_host(host: Host) -> None:
    """From now on, and until its next boot."""
    root = _root(host)
    _empty(root / _LOG[1:])
    (root / _LIBRARY[1:]).write_bytes(_library().read_bytes())
    (root / "etc/ld.so.preload").write_text(f"{_LIBRARY}\n")


def on_host(host: Host) -> list[list[str]]:
    return read(_root(host) / _LOG[1:])


def watched(log: Path) -> dict[str, str]:
    """The environment of a controller whose programs are written down there."""
    _empty(log)
    return {"LD_PRELOAD": str(_library()), "WITNESS": str(log)}


def _empty(log: Path) -> None:
    log.write_bytes(b"")
    log.chmod(_ANYBODY)


def read(log: Path) -> list[list[str]]:
    """The words of each program."""
    records = log.read_bytes().decode(errors="replace").split("\036")
    return [record.split("\0")[:-1] for record in records if record]


def _root(host: Host) -> Path:
    return Path(f"/proc/{machine.leader(host.record)}/root")


def _library() -> Path:
    def build(new: Path) -> None:
        command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(new / "witness.so"), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"

    digest = sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    return cache.built("witness", digest, build) / "witness.so"
