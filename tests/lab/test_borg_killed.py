"""A host that is cut off anywhere in a backup or a restore: nothing older is lost.

Steps are what borg does to files (create, prune, compact and restore), counted; points are the
starts of programs.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import machine
from tests.lab.borg_host import BORG, LIVE, REPOSITORY, WRAPPER, BorgHost
from tests.lab.hosts import running, ssh_command
from tests.lab.points import Points
from tests.lab.sshd import until
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
STEPS: Final = 22  # in a backup
RESTORE_STEPS: Final = 8
DRILL_STEPS: Final = 10
POINTS: Final = 8
OLD: Final = "epyc-20261101T060000Z"
FOLDER: Final = "/run/steps"
# borg itself, which stops at the step that has the number it waits for.
STEPPING: Final = f"""#!/usr/bin/python3
import os, sys, time
make = os.mkdir
def step():
    try:
        count = int(open("{FOLDER}/count").read()) + 1
        limit = int(open("{FOLDER}/limit").read())
    except OSError:
        return
    with open("{FOLDER}/count", "w") as file:
        file.write(str(count))
    if count == limit:
        make("{FOLDER}/reached")
        time.sleep(600)
def counted(name, real):
    def call(*words, **named):
        step()
        return real(*words, **named)
    for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if real in able:
            able.add(call)
    setattr(os, name, call)
for name in ("fsync", "fdatasync", "rename", "replace", "unlink", "remove", "mkdir", "rmdir",
             "chmod", "fchmod", "chown", "fchown", "lchown", "utime", "truncate", "ftruncate"):
    counted(name, getattr(os, name))
from borg.archiver import main
main()
"""


@dataclass(frozen=True)
class Killed:
    """How many there are where nobody disturbs."""

    on: BorgHost
    backup_steps: int
    restore_steps: int
    drill_steps: int
    programs: int


def watch(on: BorgHost, limit: int = 0) -> None:
    on.does(f"cat >{WRAPPER}; chmod 755 {WRAPPER}", STEPPING)
    on.does(
        f"rm -rf {FOLDER}; mkdir {FOLDER}; echo 0 >{FOLDER}/count; echo {limit} >{FOLDER}/limit"
    )


def prepare(on: BorgHost) -> None:
    """The next run creates, prunes, compacts and checks."""
    on.begin(keep="1h", check_every_days=0)
    on.does(f"{BORG} create {REPOSITORY}::{OLD} {LIVE}")
    on.does(f"head -c 12000000 /dev/urandom >{LIVE}/more; sync")


@pytest.fixture(scope="module")
def rig() -> Iterator[Killed]:
    with running([f"{RIG}=borg-killed"]) as (host,):
        on = BorgHost(host)
        on.install()
        prepare(on)
        watch(on)
        assert on.run("backup").code == 0
        backup_steps = int(on.does(f"cat {FOLDER}/count"))
        watch(on)
        on.restore(f"{LIVE}/thesis", "--in-place")
        restore_steps = int(on.does(f"cat {FOLDER}/count"))
        watch(on)
        assert on.run("drill").code == 0
        drill_steps = int(on.does(f"cat {FOLDER}/count"))
        prepare(on)
        points = Points(host)
        points.watch()
        assert on.run("backup").code == 0
        yield Killed(on, backup_steps, restore_steps, drill_steps, points.count)


def cut_off(on: BorgHost, command: str, reached: str) -> None:
    begun = subprocess.Popen(
        [*ssh_command(), f"root@{on.host.name}", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = Path(f"/proc/{machine.leader(on.host.record)}/root")  # to look starts no program there
    end = time.monotonic() + 120
    while not (root / reached[1:]).is_dir():
        assert time.monotonic() < end, "it was not reached"
        assert begun.poll() is None, "it ended before"
        time.sleep(0.05)
    Points(on.host).cut()
    begun.wait(180)
    until(lambda: on.host.answers, "the host's next boot")
    on.does(
        f"rm -f {WRAPPER} /etc/ld.so.preload; mkdir -p /data /mnt/backup;"
        " mountpoint -q /data || mount /dev/sda /data;"
        " mountpoint -q /mnt/backup || mount /dev/sdb /mnt/backup"
    )


def ids(on: BorgHost) -> set[str]:
    listed = on.does(f"{BORG} list --format '{{name}} {{id}}{{NL}}' {REPOSITORY}")
    return {line for line in listed.splitlines() if not line.startswith(OLD)}


def recovers(on: BorgHost, before: set[str]) -> None:
    assert before <= ids(on)
    ran = on.run("backup")
    assert ran.code == 0, ran.text + ran.stderr
    assert OLD not in on.archives()
    assert not [name for name in on.archives() if "checkpoint" in name]
    assert on.does("ls -A /data/.rigops/borg") == ""
    drilled = on.run("drill")
    assert drilled.code == 0, drilled.text


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_backup_that_is_cut_off_loses_nothing_older(rig: Killed, step: int) -> None:
    on = rig.on
    prepare(on)
    before = ids(on)
    watch(on, max(1, rig.backup_steps * step // STEPS))

    cut_off(on, on.command("backup"), f"{FOLDER}/reached")

    recovers(on, before)


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_a_host_that_is_cut_off_between_programs_loses_nothing_older(
    rig: Killed, point: int
) -> None:
    on = rig.on
    prepare(on)
    before = ids(on)
    on.does("rm -rf /run/points")
    # Those of systemd-run and of ssh are counted too: the first few are not yet the program.
    Points(on.host).watch(rig.programs * (point + 1) // (POINTS + 1))

    cut_off(on, on.command("backup"), "/run/points/reached")

    recovers(on, before)


@pytest.mark.parametrize("step", range(1, RESTORE_STEPS + 1))
def test_a_restore_that_is_cut_off_leaves_the_live_tree(rig: Killed, step: int) -> None:
    on = rig.on
    prepare(on)
    before, was = ids(on), on.look(LIVE)
    on.does(f"rm {LIVE}/thesis/text; echo newer >{LIVE}/thesis/newer")
    live = below(on.look(LIVE), "thesis")
    watch(on, max(1, rig.restore_steps * step // RESTORE_STEPS))

    cut_off(
        on,
        on.command("restore", "--path", f"{LIVE}/thesis", "--in-place"),
        f"{FOLDER}/reached",
    )

    assert below(on.look(LIVE), "thesis") == live
    done = on.restore(f"{LIVE}/thesis", "--in-place")
    assert below(on.look(LIVE), "thesis") == below(was, "thesis")
    assert on.does(f"cat '{done['aside']}/newer'") == "newer"
    assert on.does(f"ls -A {LIVE} | grep rigops-restore || :") == ""
    recovers(on, before)


@pytest.mark.parametrize("step", range(1, DRILL_STEPS + 1))
def test_a_drill_that_is_cut_off_loses_nothing_and_leaves_nothing(rig: Killed, step: int) -> None:
    on = rig.on
    prepare(on)
    before = ids(on)
    # Not at the last one: by what a drill happens to read it has one more or less.
    watch(on, max(1, rig.drill_steps * step // (DRILL_STEPS + 1)))

    cut_off(on, on.command("drill"), f"{FOLDER}/reached")

    recovers(on, before)
    assert on.does("ls -d /var/lib/rigops/borg/drill 2>/dev/null || :") == ""
