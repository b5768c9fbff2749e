"""How fast `rigops --help` opens, against importing click alone: `python -m benchmarks.startup`.

The two are run in turn: a machine whose speed drifts must not change the ratio.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 9
BOUND = 2.0

COMMANDS = {
    "python -m rigops --help": [sys.executable, "-m", "rigops", "--help"],
    'python -c "import click"': [sys.executable, "-c", "import click"],
}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> int:
    for command in COMMANDS.values():
        seconds(command)
    rounds = [[seconds(command) for command in COMMANDS.values()] for _ in range(RUNS)]
    ours, peer = (statistics.median(column) for column in zip(*rounds, strict=True))
    for name, median in zip(COMMANDS, (ours, peer), strict=True):
        print(f"{name:<26} {median * 1000:6.1f} ms, median of {RUNS}")
    print(f"ratio {ours / peer:.2f}, promised at most {BOUND}")
    return int(ours / peer > BOUND)


if __name__ == "__main__":
    sys.exit(main())
