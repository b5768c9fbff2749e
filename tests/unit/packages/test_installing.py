"""The script is really run, with tools that only say what they were asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rigops.packages.facts import AptWould, Dpkg
from rigops.packages.installing import Installing, script, waiting
from rigops.packages.records import PACKAGES_RECORD
from tests.unit import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PRINTED = ("Inst a [1] (2 here [all])", "Remv b [1]")
WORK = Installing(words=("a=2", "b-"), printed=PRINTED, lock_wait_s=300)
_APT = """\
#!/bin/sh
case "$*" in *-s*) cat "$ROOT/would"; exit ;; esac
echo "apt-get $*" >>"$ROOT/asked"
until [ ! -f "$ROOT/slow" ]; do sleep 0.01; done
echo "apt-get ended" >>"$ROOT/asked"
[ ! -f "$ROOT/fails" ] || { echo "E: it failed"; exit 100; }
"""
# Holds a lock as apt does. It ends by itself, also if nobody comes for it.
_HOLDS = (
    "import fcntl, sys, time; lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX);"
    "print('held', flush=True); time.sleep(300)"
)
_SAYS = '#!/bin/sh\necho "${0##*/} $*" >>"$ROOT/asked"\n'


class Machine:
    """A folder as a host: paths of the script are put below it, and its own tools come first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        for name, text in {"apt-get": _APT, "dpkg": _SAYS, "apt-mark": _SAYS}.items():
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)
        (root / "bin/dpkg-query").write_text("#!/bin/sh\nexit 0\n")
        (root / "bin/dpkg-query").chmod(0o755)
        self.would(*PRINTED)

    def would(self, *lines: str) -> None:
        text = "\n".join(["Reading package lists...", *reversed(lines), "Conf a (2 here [all])"])
        (self.root / "would").write_text(text + "\n")

    def text(self, text: str) -> str:
        below = re.sub(r"/var/(lib|cache)", rf"{self.root}/var/\1", text)
        below = below.replace("sleep 1", "sleep 0.05")
        return below.replace("PATH=", f"PATH={self.root}/bin:", 1)

    def start(self, text: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "ROOT": str(self.root)}, start_new_session=True,
        )  # fmt: skip

    def run(self, work: Installing) -> tuple[int, str]:
        with self.start("") as running:
            _, error = running.communicate(self.text(script(work)), timeout=60)
        return running.returncode, error

    @contextmanager
    def locked(self) -> Iterator[subprocess.Popen[str]]:
        lock = self.below("/var/lib/dpkg/lock-frontend")
        lock.parent.mkdir(parents=True)
        with subprocess.Popen(
            [sys.executable, "-c", _HOLDS, lock], stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            try:
                yield holder
            finally:
                holder.kill()

    @property
    def asked(self) -> list[str]:
        asked = self.root / "asked"
        return asked.read_text().splitlines() if asked.exists() else []

    def below(self, path: str) -> Path:
        return self.root / path.lstrip("/")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_was_announced_is_done_and_no_more_is_allowed_than_that(machine: Machine) -> None:
    code, error = machine.run(WORK)

    assert (code, error) == (0, "")
    asked, ended = machine.asked
    assert asked.endswith("install a=2 b-")
    assert "confold" in asked
    assert "--allow" not in asked
    assert ended == "apt-get ended"
    assert [*machine.root.rglob("*.log"), *machine.root.rglob("*.rigops-new")] == []


def test_an_archive_that_changed_meanwhile_ends_it_before_anything_happens(
    machine: Machine,
) -> None:
    machine.would(*PRINTED, "Remv c [1]")

    code, error = machine.run(WORK)

    assert code == 1
    assert "changed meanwhile; run this again" in error
    assert machine.asked == []


def test_what_dpkg_did_not_finish_meanwhile_is_left_to_whoever_began_it(machine: Machine) -> None:
    (machine.root / "bin/dpkg-query").write_text("#!/bin/sh\necho 'iU  tzdata'; echo 'ii  a'\n")

    code, error = machine.run(WORK)

    assert code == 1
    assert "meanwhile dpkg did not finish with tzdata: sudo dpkg --configure -a" in error
    assert machine.asked == []


def test_flags_holds_and_records_come_where_they_were_announced(machine: Machine) -> None:
    code, _ = machine.run(
        Installing(
            words=("a=2",),
            printed=PRINTED,
            lock_wait_s=300,
            repairs=True,
            downgrades=True,
            changes_held=True,
            hold_again=("a",),
            record_before="before",
            record_after="after",
        )
    )

    assert code == 0
    assert [line.split()[0] for line in machine.asked] == ["dpkg", "apt-get", "apt-get", "apt-mark"]
    assert machine.asked[0].startswith("dpkg --configure -a")
    assert "--allow-downgrades --allow-change-held-packages" in machine.asked[1]
    assert machine.asked[3] == "apt-mark hold a"
    assert machine.below(PACKAGES_RECORD).read_text() == "after"


def test_a_failure_is_said_with_apts_own_words_and_the_record_knows_what_was_begun(
    machine: Machine,
) -> None:
    (machine.root / "fails").touch()

    code, error = machine.run(
        Installing(
            words=("a=2",), printed=PRINTED, lock_wait_s=300, record_before="b", record_after="a"
        )
    )

    assert code == 100
    assert "E: it failed" in error
    assert "packages.log" in error
    assert machine.below(PACKAGES_RECORD).read_text() == "b"


def test_the_end_of_whoever_waits_does_not_end_the_installing(machine: Machine) -> None:
    (machine.root / "slow").touch()
    with machine.start("") as running:
        assert running.stdin is not None
        running.stdin.write(machine.text(script(WORK)))
        running.stdin.close()
        _until(lambda: bool(machine.asked))
        os.killpg(running.pid, signal.SIGKILL)

    assert running.returncode == -signal.SIGKILL
    assert "apt-get ended" not in machine.asked
    (machine.root / "slow").unlink()
    _until(lambda: machine.asked[-1] == "apt-get ended")


def test_a_script_that_arrives_in_part_does_nothing(machine: Machine) -> None:
    whole = machine.text(script(WORK))
    for end in range(whole.index("main() {"), whole.rindex("main <"), 40):
        with machine.start("") as running:
            running.communicate(whole[:end], timeout=60)

    assert machine.asked == []


def test_whose_end_is_waited_for_is_said_while_it_lasts_and_once(machine: Machine) -> None:
    with machine.locked() as holder, machine.start("") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(machine.text(script(WORK)))
        running.stdin.flush()
        line, *others = (running.stdout.readline() for _ in range(4))
        still_held = holder.poll() is None
        holder.kill()
        rest, _ = running.communicate(timeout=60)

    assert still_held
    who = rf"held by \S+ \(process {holder.pid}, begun \d+ s ago\)"
    assert others == ["\n"] * 3
    assert re.fullmatch(rf"waiting up to 300 s for apt's lock, {who}\n", line)
    assert rest.split("\n")[-2:] == ["apt is at work", ""]
    assert rest.count("waiting") == 0


def test_one_who_waits_and_is_heard_by_nobody_any_more_installs_nothing(machine: Machine) -> None:
    with machine.locked() as holder, machine.start("") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(machine.text(script(WORK)))
        running.stdin.flush()
        running.stdout.readline()
        running.stdout.close()
        running.wait(timeout=60)
        held = holder.poll() is None
        holder.kill()

    assert held
    assert machine.asked == []


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


TEXTS = (
    waiting(5),
    script(Installing(words=("a",), printed=("it's",), lock_wait_s=1, repairs=True,
                      hold_again=("a",), record_before="b", record_after="a")),
    Dpkg().command(names=("a", "b")).bits[-1].obj,
    AptWould().command(words=("a=1", "b-")).bits[-1].obj,
)  # fmt: skip


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_every_shell_can_read_the_texts(shell: str) -> None:
    for text in TEXTS:
        words = [*programs.shell(shell), "-n"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_texts_are_plain_sh() -> None:
    for text in TEXTS:
        programs.assert_clean_shell(text, exclude="SC2016")
