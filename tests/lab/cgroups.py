"""A control group per host: whatever a host started is found in it, and ends with it."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.lab.errors import LabError

_PATIENCE = 120.0


@cache
def root() -> Path | None:
    """Where the machine has mounted the unified hierarchy."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def make(group: Path) -> None:
    group.mkdir(parents=True, exist_ok=True)


def end(group: Path) -> None:
    """Kill everything in the group and below, wait until it is gone, remove the group."""
    deadline = time.monotonic() + _PATIENCE
    while group.is_dir():
        with suppress(FileNotFoundError):
            (group / "cgroup.kill").write_text("1")
        with suppress(OSError):  # busy until the last of them is gone
            _remove(group)
        if time.monotonic() > deadline:
            raise LabError(f"processes in {group} do not end: look at its cgroup.procs files")
        time.sleep(0.005)


def _remove(group: Path) -> None:
    for below in group.iterdir():
        if below.is_dir():
            _remove(below)
    group.rmdir()
