"""What watching costs the hosts: `python -m benchmarks.watch [SECONDS]`. Needs root for the lab.

Four hosts are watched at once, a sample a second, for a minute; against the same query as people
loop it, on the same hosts: `ssh HOST nvidia-smi` each second, and `nvidia-smi` each second over one
connection. Processor time is that of a host's control group, sshd's included. The lab's nvidia-smi
is a Python program, so that each of its starts costs more than a start of the real one, and so does
each of its samples.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import hosts
from tests.lab.laptop import Laptop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.lab.hosts import Host

RIGS = ("threadripper-3x3090", "t180-4xv100", "nvlink-2x3090", "desktop-3060-1060")
SECONDS = 60
CORE_BOUND = 0.02
QUERY = (
    "nvidia-smi --format=csv,noheader --query-gpu=pci.bus_id,temperature.gpu,power.draw,"
    "clocks.current.sm,utilization.gpu,memory.used"
)
_ACCEPTED = "journalctl -t sshd --no-pager -q | grep -c 'Accepted'; :"


def shares(booted: Sequence[Host], way: Callable[[], None], seconds: float) -> list[float]:
    before = [_cpu_s(host) for host in booted]
    way()
    return [(_cpu_s(host) - was) / seconds for host, was in zip(booted, before, strict=True)]


def _cpu_s(host: Host) -> float:
    lines = (host.record.group / "machine/cpu.stat").read_text().splitlines()
    return int(dict(map(str.split, lines))["usage_usec"]) / 1e6


def _logins(host: Host) -> int:
    return int(host.run(_ACCEPTED).stdout)


def watched(laptop: Laptop, seconds: float) -> None:
    running = laptop.start("doctor", "--watch", "1", "--json")
    threading.Timer(seconds, running.process.send_signal, (signal.SIGTERM,)).start()
    said = running.wait()
    samples = len(said.out.splitlines()) - 1
    print(f"watch      {samples} samples, exit code {said.code}")


def looped(booted: Sequence[Host], seconds: float, command: str, *, each: bool) -> None:
    """`each`: with a connection for each sample."""
    end = time.monotonic() + seconds

    def loop(host: Host) -> None:
        if not each:
            words = f"timeout {seconds} sh -c 'while {command}; do sleep 1; done'"
            host.run(words, timeout=seconds + 60)
            return
        while time.monotonic() < end:
            host.run(command)
            time.sleep(1)

    threads = [threading.Thread(target=loop, args=(host,)) for host in booted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with (
        tempfile.TemporaryDirectory() as place,
        hosts.running([f"{rig}=bench-watch-{number}" for number, rig in enumerate(RIGS)]) as booted,
    ):
        laptop = Laptop(Path(place))
        laptop.declare({host.name: {} for host in booted})
        time.sleep(10)  # what a boot leaves to do
        before = [_logins(host) for host in booted]
        idle = max(shares(booted, lambda: time.sleep(10), 10))
        ours = shares(booted, lambda: watched(laptop, seconds), seconds)
        after = [_logins(host) for host in booted]
        # The second count is a login itself.
        logins = {now - was - 1 for now, was in zip(after, before, strict=True)}
        loop = shares(booted, lambda: looped(booted, seconds, QUERY, each=False), seconds)
        each = shares(booted, lambda: looped(booted, seconds, QUERY, each=True), seconds)
    print(
        f"           {max(ours):.2%} of a core, promised at most {CORE_BOUND:.0%} (idle {idle:.2%})"
    )
    print(f"           connections to each host: {', '.join(map(str, sorted(logins)))}")
    print(f"peers      nvidia-smi each second over one connection: {max(loop):.2%} of a core")
    print(f"           ssh HOST nvidia-smi each second: {max(each):.2%} of a core")
    print(f"           ratios {max(loop) / max(ours):.1f} and {max(each) / max(ours):.1f}")
    return 0 if max(ours) <= CORE_BOUND and logins == {1} else 1


if __name__ == "__main__":
    sys.exit(main())
