"""The words of every program that is started, on a host and by a controller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import machine
from tests.lab.preloaded import library, preload

if TYPE_CHECKING:
    from tests.lab.hosts import Host

_LOG = "/run/witness"
_ANYBODY = 0o666  # whoever starts a program


def watch_host(host: Host) -> None:
    """From now on, and until its next boot."""
    _empty(_root(host) / _LOG[1:])
    preload(host, "witness")


def on_host(host: Host) -> list[list[str]]:
    return read(_root(host) / _LOG[1:])


def watched(log: Path) -> dict[str, str]:
    """The environment of a controller whose programs are written down there."""
    _empty(log)
    return {"LD_PRELOAD": str(library("witness")), "WITNESS": str(log)}


def _empty(log: Path) -> None:
    log.write_bytes(b"")
    log.chmod(_ANYBODY)


def read(log: Path) -> list[list[str]]:
    """The words of each program."""
    records = log.read_bytes().decode(errors="replace").split("\036")
    return [record.split("\0")[:-1] for record in records if record]


def _root(host: Host) -> Path:
    return Path(f"/proc/{machine.leader(host.record)}/root")
