"""The program that holds the lock on a host, under every shell of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

import pytest

from rigops.hostside.packing import pack
from tests.unit.hostside.waiting import PATIENCE_S
from tests.unit.programs import SHELLS, shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLEEP = shutil.which("sleep")
NOTE = {"who": 'kim "\\o/" ü@laptop', "run": "one"}


@dataclass
class Machine:
    """A shell, and folders in place of a host's."""

    shell: list[str]
    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def note(self) -> Path:
        return self.root / "state/lock.json"

    @property
    def work(self) -> Path:
        return self.root / "run/work.lock"

    @property
    def dpkg(self) -> Path:
        return self.root / "dpkg"

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **environment},
        )
        self.started.append(process)
        return process

    def sleeps(self, does: str) -> str:
        """Where a sleep of its own is that does this; it takes no time."""
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "sleep").write_text(f"#!/bin/sh\n{does}\n")
        (folder / "sleep").chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    def take(
        self, run: str = "one", *, seconds: int = 600, text: str = "", **environment: str
    ) -> Taker:
        folders = [str(self.root / name) for name in ("state", "run", "dpkg")]
        words = [*self.shell, "-c", text or pack("lock").text, "lock", *folders, str(seconds)]
        if "PATH" not in environment:
            environment["PATH"] = self.sleeps(f"exec {SLEEP} 0.02")
        process = self.start(*words, **environment)
        taker = Taker(process)
        taker.write(json.dumps({**NOTE, "run": run}))
        return taker

    def end(self) -> None:
        """With all that they started, which may hold what somebody reads."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def written(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.note.read_text())
        return found


@dataclass
class Taker:
    process: subprocess.Popen[str]

    def write(self, line: str) -> None:
        pipe = cast("IO[str]", self.process.stdin)
        pipe.write(f"{line}\n")

    def says(self) -> str:
        return cast("IO[str]", self.process.stdout).readline().rstrip("\n")

    def loses_its_connection(self) -> int:
        cast("IO[str]", self.process.stdin).close()
        return self.process.wait(PATIENCE_S)

    def gives_back(self) -> int:
        self.write("")
        self.write("release")
        return self.process.wait(PATIENCE_S)


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(shell(request.param), tmp_path)
    machine.dpkg.mkdir()
    for name in ("lock", "lock-frontend"):
        (machine.dpkg / name).touch()
    alarm = threading.Timer(PATIENCE_S, machine.end)  # nobody waits for ever for a line of theirs
    alarm.start()
    yield machine
    alarm.cancel()
    for process in machine.started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


_SLEEPS = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "


def _apt(machine: Machine) -> subprocess.Popen[str]:
    """A process that holds dpkg's lock, until its input ends."""
    program = _SLEEPS + "print('locked', flush=True); sys.stdin.read()"
    process = machine.start(sys.executable, "-c", program, str(machine.dpkg / "lock-frontend"))
    assert Taker(process).says() == "locked"
    return process


def _work(machine: Machine) -> subprocess.Popen[str]:
    work = machine.start("flock", "-o", "-s", str(machine.work), "sh", "-c", "echo on; read -r _")
    assert Taker(work).says() == "on"
    return work


def _end(process: subprocess.Popen[str]) -> None:
    cast("IO[str]", process.stdin).close()
    process.wait(PATIENCE_S)


def test_the_note_says_who_has_it_and_goes_when_it_is_given_back(machine: Machine) -> None:
    taker = machine.take()

    assert taker.says() == "held"
    written = machine.written()
    assert written.pop("pid") == taker.process.pid
    assert written == NOTE
    assert (
        machine.note.stat().st_mode & 0o777,
        (machine.root / "state/lock").stat().st_mode & 0o777,
    ) == (0o644, 0o600)
    assert taker.gives_back() == 0
    assert [path.name for path in (machine.root / "state").iterdir()] == ["lock"]
    assert machine.take("two").says() == "held"


def test_a_second_one_is_told_of_the_first(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    began = machine.note.stat().st_mtime - 3600
    os.utime(machine.note, (began, began))

    second = machine.take("two")

    kind, seconds, note = second.says().split(" ", 2)
    assert (kind, json.loads(note)) == ("busy", {**NOTE, "pid": first.process.pid})
    assert 3600 <= int(seconds) < 2 * 3600
    assert second.process.wait(PATIENCE_S) == 1
    assert machine.written()["run"] == "one"


def test_a_lost_connection_frees_it_and_leaves_the_note(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    assert first.loses_its_connection() == 0

    second = machine.take("two")

    kind, note = second.says().split(" ", 1)
    assert (kind, json.loads(note)["run"]) == ("stale", "one")
    assert second.says() == "held"
    assert machine.written()["run"] == "two"


def test_one_that_was_killed_is_taken_over(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(PATIENCE_S)

    second = machine.take("two")

    assert second.says().startswith("stale ")
    assert second.says() == "held"


@pytest.mark.parametrize("rubbish", ["", "no\njson\n", "\x00\x1b[31m"])
def test_a_note_that_nobody_can_read_is_stale_in_one_line(machine: Machine, rubbish: str) -> None:
    machine.note.parent.mkdir()
    machine.note.write_text(rubbish)

    taker = machine.take()

    assert taker.says().startswith("stale ")
    assert taker.says() == "held"


def test_work_that_still_runs_is_named_and_waited_for(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    work = _work(machine)
    first.loses_its_connection()

    second = machine.take("two")

    assert second.says().startswith("stale ")
    assert second.says() == f"wait sh -c echo on; read -r _ (pid {work.pid})"
    _end(work)
    assert second.says() == "held"
    assert second.gives_back() == 0


def test_work_is_waited_for_also_where_the_lock_was_given_back(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    work = _work(machine)
    assert first.gives_back() == 0

    second = machine.take("two")

    assert second.says().startswith("wait sh ")
    _end(work)
    assert second.says() == "held"


def test_a_daemon_that_work_left_behind_is_not_waited_for(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    leave = "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!"
    work = machine.start("flock", "-o", "-s", str(machine.work), "sh", "-c", leave)
    daemon = int(Taker(work).says())
    work.wait(PATIENCE_S)
    first.loses_its_connection()

    second = machine.take("two")

    assert second.says().startswith("stale ")
    assert second.says() == "held"
    os.kill(daemon, signal.SIGKILL)


def test_a_package_manager_is_waited_for_after_a_holder_that_did_not_end(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    first.loses_its_connection()
    apt = _apt(machine)

    second = machine.take("two")

    assert second.says().startswith("stale ")
    waits = second.says()
    assert waits.startswith("wait ")
    assert waits.endswith(f"(pid {apt.pid})")
    assert waits.count("(pid ") == 1
    _end(apt)
    assert second.says() == "held"


def test_a_package_manager_alone_is_nobodys_left_over(machine: Machine) -> None:
    _apt(machine)

    assert machine.take().says() == "held"


def test_an_open_file_without_a_lock_is_not_waited_for(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    first.loses_its_connection()
    with (machine.dpkg / "lock").open("w"):
        second = machine.take("two")

        assert second.says().startswith("stale ")
        assert second.says() == "held"


def test_the_lock_of_another_file_of_that_name_is_not_waited_for(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    first.loses_its_connection()
    elsewhere = machine.root / "container"
    elsewhere.mkdir()
    with (elsewhere / "lock").open("w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        second = machine.take("two")

        assert second.says().startswith("stale ")
        assert second.says() == "held"


def test_what_does_not_end_is_named_and_the_note_stays_that_of_the_dead_one(
    machine: Machine,
) -> None:
    first = machine.take()
    assert first.says() == "held"
    work = _work(machine)
    first.loses_its_connection()
    before = machine.note.read_text()
    clock = machine.root / "uptime"
    clock.write_text("100.50 1.0\n")
    text = pack("lock").text.replace("/proc/uptime", str(clock))
    tick = f'read -r now _ <{clock}; echo "$((${{now%%.*}} + 1)).50 1.0" >{clock}'

    second = machine.take("two", seconds=6, text=text, PATH=machine.sleeps(tick))

    said = cast("IO[str]", second.process.stdout).read().splitlines()
    assert [line.split(" ")[0] for line in said] == ["stale", "wait", "wait", "late"]
    assert clock.read_text() == "106.50 1.0\n"
    assert second.process.wait(PATIENCE_S) != 0
    assert machine.note.read_text() == before
    assert work.poll() is None


def test_one_that_waits_ends_with_its_connection(machine: Machine) -> None:
    first = machine.take()
    assert first.says() == "held"
    _work(machine)
    first.loses_its_connection()
    second = machine.take("two")
    assert second.says().startswith("stale ")
    assert second.says().startswith("wait ")

    second.loses_its_connection()

    assert cast("IO[str]", second.process.stdout).read() == ""  # the part that waits ended too
    third = machine.take("three")
    assert third.says().startswith("stale ")


def test_without_flock_it_is_refused(machine: Machine) -> None:
    tools = machine.root / "bin"
    tools.mkdir()
    for name in ("tr", "cut", "sed", "printf"):
        (tools / name).symlink_to(shutil.which(name) or "")

    taker = machine.take(PATH=str(tools))

    assert taker.says() == "trouble no_flock "
    assert taker.process.wait(PATIENCE_S) == 1


def test_a_place_that_cannot_be_written_is_named_with_the_reason(machine: Machine) -> None:
    (machine.root / "state").write_text("a file")

    taker = machine.take()

    said = taker.says()
    assert said.startswith("trouble write ")
    assert str(machine.root / "state") in said
    assert taker.process.wait(PATIENCE_S) == 1


def test_half_a_program_does_nothing(machine: Machine) -> None:
    text = pack("lock").text
    for share in (0.3, 0.7, 0.99):
        half = text[: int(len(text) * share)]
        done = subprocess.run(
            [*machine.shell, "-c", half, "lock", str(machine.root / "state"), "r", "d", "1"],
            input="{}\n",
            text=True,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.stdout == ""
    assert not (machine.root / "state").exists()
