"""What a backup costs, against plain `borg create`: `-m benchmarks.borg`.

Needs root, borgbackup and btrfs-progs. A tree of 2 GB on a loop device goes to a new repository on
another one, by each side in turn: a machine whose speed drifts must not change the ratio. Our side
takes a snapshot and has it in the place of the live path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.snapshots import alternating, disk, fill, run
from rigops.backup.host.output import Output
from rigops.backup.host.volumes import leave_mounts_of_others
from rigops.concerns.borg.host import borg_process, borg_sources
from rigops.concerns.borg.host.backing_up import create_archive
from rigops.concerns.borg.host.borg_process import Borg, find_borg_version
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.host.borg_sources import frozen_sources

RUNS = 4
BOUND = 1.10
PASSPHRASE = "benchmark"  # noqa: S105 - of a repository that lasts seconds


def back_up_once(source: Path, repository: Path, files: Path) -> None:
    """As a run does, from a snapshot."""
    leave_mounts_of_others()
    for module in (borg_process, borg_sources):
        cache = str(files / "cache")
        vars(module).update(BORG_FILES=str(files), BORG_CACHE=cache, BORG_TEMPORARY=f"{cache}/new")
    settings = BorgSettings("host", str(repository), (str(source),))
    borg = Borg(settings, PASSPHRASE.encode(), find_borg_version())
    output = Output(as_json=True)
    with frozen_sources(settings.paths, settings.folder, output) as present:
        create_archive(borg, list(present), (), output, [])


def environment(files: Path) -> dict[str, str]:
    return {
        **os.environ,
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_CONFIG_DIR": str(files),
        "BORG_CACHE_DIR": str(files / "cache"),
    }


def seconds(words: list[str], repository: Path, files: Path) -> float:
    """Into a new repository, and to the disk."""
    for one in (repository, files):
        shutil.rmtree(one, ignore_errors=True)
    carry_out(["borg", "init", "-e", "repokey-blake2", str(repository)], files)
    run("sync")
    began = time.perf_counter()
    carry_out(words, files)
    return time.perf_counter() - began


def carry_out(words: list[str], files: Path) -> None:
    subprocess.run(
        words,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(files),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--once", nargs=3, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        back_up_once(*arguments.once)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without unmounting
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        room = arguments.megabytes + 2000
        source, target = (disk(stack, folder, name, room) for name in ("source", "target"))
        live, repository, files = source / "live", target / "borg", folder / "files"
        run("btrfs", "-q", "subvolume", "create", str(live))
        fill(live, arguments.megabytes)
        once = [sys.executable, "-m", "benchmarks.borg", "--once"]
        sides = (
            [*once, str(live), str(repository), str(files)],
            ["borg", "create", f"{repository}::plain", str(live)],
        )
        rounds = alternating(
            1 + arguments.runs, lambda side: seconds(sides[side], repository, files)
        )
    ours, peer = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
    print(f"borg        {arguments.megabytes} MB to a new repository: rigops {ours:.2f} s,")
    print(f"            borg create {peer:.2f} s, medians of {arguments.runs};")
    print(f"            ratio {ours / peer:.2f}, promised at most {BOUND}")
    return int(ours / peer > BOUND)


if __name__ == "__main__":
    sys.exit(main())
