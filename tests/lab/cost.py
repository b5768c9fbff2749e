"""What a script costs a host that has nothing else to do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.hosts import Host

# The numbers of processes are given out one after the other, and a host has its own.
_COUNTED = "sh -c 'echo $$'; {}; sh -c 'echo $$'; :"
_SETTLED_S = 0.5  # what a login leaves behind ends in it


@dataclass(frozen=True)
class Cost:
    processes: int
    cpu_s: float


def of_script(host: Host, script: str, user: str = "root") -> Cost:
    """Less what a login alone takes of the processor."""
    before = _cpu_s(host)
    _run(host, ":", "", user)
    between = _cpu_s(host)
    processes = _run(host, "sh -s >/dev/null", script, user)
    return Cost(processes, _cpu_s(host) - between - (between - before))


def _run(host: Host, command: str, given: str, user: str) -> int:
    done = host.run(_COUNTED.format(command), given=given, user=user)
    done.check_returncode()
    first, last = map(int, done.stdout.split())
    time.sleep(_SETTLED_S)
    return last - first - 1


def _cpu_s(host: Host) -> float:
    lines = (host.record.group / "machine/cpu.stat").read_text().splitlines()
    return int(dict(map(str.split, lines))["usage_usec"]) / 1e6
