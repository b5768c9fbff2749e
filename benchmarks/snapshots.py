"""What sending a snapshot costs, against `btrfs send | btrfs receive`: `-m benchmarks.snapshots`.

Needs root and btrfs-progs. A tree of 2 GB on one loop device is sent in full to another, by each
side in turn, and each is as often the first: a machine whose speed drifts must not change the
ratio.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.output import Output
from rigops.backup.host.volumes import Volume
from rigops.concerns.snapshots.host.chain import Transfer
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.transfer import send_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 8
BOUND = 1.10
FILES = 64
NAME = "20261125T060000Z-manual"
FOLDER = "data"
BASE = "snapshots"


def run(*words: str) -> str:
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return done.stdout.decode().strip()


def disk(stack: ExitStack, folder: Path, name: str, megabytes: int) -> Path:
    """A new btrfs on a loop device, mounted."""
    image, mount = folder / f"{name}.img", folder / name
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    device = run("losetup", "--find", "--show", str(image))
    stack.callback(run, "losetup", "--detach", device)
    run("mkfs.btrfs", "--quiet", device)
    mount.mkdir()
    run("mount", "-o", "noatime", device, str(mount))
    stack.callback(run, "umount", str(mount))
    return mount


def fill(folder: Path, megabytes: int) -> None:
    part = (megabytes << 20) // FILES
    for number in range(FILES):
        (folder / f"file{number}").write_bytes(os.urandom(part))


def send_once(source: Path, target: Path) -> None:
    """As a run does, with all that it verifies."""
    local = LocalPlace("local", Volume("", "", str(source)), BASE, receives=False)
    place = LocalPlace("target", Volume("", "", str(target)), BASE, receives=True)
    send_snapshot(Transfer(NAME, ()), FOLDER, local, place, Output(as_json=True))
    place.sync()


def seconds(words: list[str], target: Path) -> float:
    """And the target is as empty as before."""
    began = time.perf_counter()
    run(*words)
    took = time.perf_counter() - began
    run("btrfs", "-q", "subvolume", "delete", "--commit-each", str(target / BASE / FOLDER / NAME))
    run("btrfs", "-q", "subvolume", "sync", str(target))
    return took


def alternating(count: int, measure: Callable[[int], float]) -> list[tuple[float, float]]:
    """Of both sides in turn; each is as often the first."""
    rounds = []
    for number in range(count):
        first = measure(number % 2)
        other = measure(1 - number % 2)
        rounds.append((other, first) if number % 2 else (first, other))
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--once", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        send_once(*arguments.once)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without unmounting
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        room = arguments.megabytes + 1500
        source, target = (disk(stack, folder, name, room) for name in ("source", "target"))
        run("btrfs", "-q", "subvolume", "create", str(source / "live"))
        fill(source / "live", arguments.megabytes)
        for mount in (source, target):
            (mount / BASE / FOLDER).mkdir(parents=True)
        snapshot, there = source / BASE / FOLDER / NAME, target / BASE / FOLDER
        run("btrfs", "-q", "subvolume", "snapshot", "-r", str(source / "live"), str(snapshot))
        send, receive = shlex.quote(str(snapshot)), shlex.quote(str(there))
        plain = f"btrfs -q send {send} | btrfs -q receive {receive}"
        plain += f" && btrfs -q filesystem sync {receive}"
        sides = (
            [sys.executable, "-m", "benchmarks.snapshots", "--once", str(source), str(target)],
            ["sh", "-c", plain],
        )
        rounds = alternating(1 + RUNS, lambda side: seconds(sides[side], target))[1:]
    ours, peer = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"snapshots   {arguments.megabytes} MB to another disk: rigops {ours:.2f} s,")
    print(f"            btrfs send | btrfs receive {peer:.2f} s, medians of {RUNS};")
    print(f"            ratio {ours / peer:.2f}, promised at most {BOUND}")
    return int(ours / peer > BOUND)


if __name__ == "__main__":
    sys.exit(main())
