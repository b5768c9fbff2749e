"""A command that is held: beside others, with its input open, until it is released."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from rigops.transport import LOCAL, Connection, HostKeyPolicy, TransportError, connect, holding
from rigops.transport.clock import SLICE_S
from rigops.transport.connection import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.transport.connection import Execution

ROOT = Path(__file__).resolve().parents[3]

LONG = 60.0  # seconds, after which nothing comes any more
WAITS = 'until [ -e "$0" ]; do sleep 0.01; done'

# Says what it reads, and at the end of its input that.
ECHO = (
    'echo ready; while read -r line; do [ -z "$line" ] || echo "$line" >>"$0"; done; '
    'echo end >>"$0"'
)


@pytest.fixture
def here() -> Iterator[Connection]:
    with connect(LOCAL, host_keys=HostKeyPolicy()) as connection:
        yield connection


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_it_goes_on_beside_others_and_ends_after_its_last_line(
    here: Connection, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"

    held = here.hold(
        ["sh", "-c", ECHO, str(heard)], stdin=b"first\n", ready=b"read", deadline_s=LONG
    )

    assert held.lines == ("ready",)
    assert here.run(["echo", "beside"], deadline_s=LONG).stdout == b"beside\n"
    until(lambda: text(heard) == "first\n")
    before = held.ended
    held.release(b"last\n")
    assert before is None
    until(lambda: held.ended is not None)
    assert held.ended == 0
    assert text(heard) == "first\nlast\nend\n"


def test_lines_before_it_is_ready_are_told_as_they_come(here: Connection, tmp_path: Path) -> None:
    told: list[str] = []
    program = f"echo one; {WAITS}; echo two; echo ready now; read -r _"

    def on_line(line: str) -> None:
        told.append(line)
        (tmp_path / "go").touch()

    held = here.hold(
        ["sh", "-c", program, str(tmp_path / "go")],
        ready=b"ready",
        deadline_s=LONG,
        on_line=on_line,
    )

    assert told == ["one", "two"]
    assert held.lines == ("one", "two", "ready now")
    held.release()


def test_one_that_ends_instead_gives_its_code_and_its_words(here: Connection) -> None:
    held = here.hold(
        ["sh", "-c", "echo no; printf cut; echo why >&2; exit 7"], ready=b"ready", deadline_s=LONG
    )

    assert held.lines == ("no", "cut")
    assert held.ended == 7
    assert held.error_output == b"why\n"


def test_one_that_is_killed_is_seen_to_have_ended(here: Connection) -> None:
    held = here.hold(["sh", "-c", "echo ready $$; exec cat"], ready=b"ready", deadline_s=LONG)

    # The shell's own kill: a bare Debian has no program of that name.
    here.run(["sh", "-c", f"kill -9 {held.lines[0].split()[1]}"], deadline_s=LONG)

    until(lambda: held.ended is not None)
    assert held.ended == 137


def test_one_whose_frame_is_killed_too_is_seen_to_have_ended(here: Connection) -> None:
    program = "echo ready $PPID; kill -9 $PPID $$"

    held = here.hold(["sh", "-c", program], ready=b"ready", deadline_s=LONG)

    until(lambda: held.ended is not None)
    assert held.ended == -1


def test_one_that_is_not_ready_in_time_closes_the_connection(
    here: Connection, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"

    with pytest.raises(TransportError, match=r"waiting for sh did not finish within 0\.3 s"):
        here.hold(["sh", "-c", ECHO, str(heard)], ready=b"never", deadline_s=0.3)

    until(lambda: text(heard) == "end\n")
    with pytest.raises(TransportError, match="closed"):
        here.run(["true"], deadline_s=LONG)


def test_it_holds_on_longer_than_a_beat(
    here: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_BEAT_S", 0.01)
    heard = tmp_path / "heard"
    program = ECHO.replace('[ -z "$line" ] || echo "$line"', 'echo "heard $line"')

    held = here.hold(["sh", "-c", program, str(heard)], ready=b"ready", deadline_s=LONG)

    until(lambda: text(heard).startswith("heard \n" * 4))
    assert held.ended is None
    held.release()
    until(lambda: text(heard).endswith("heard \nend\n"))


class Odd(Connection):
    """Answers in pieces of its own choice."""

    def __init__(self, *answer: str) -> None:
        super().__init__("rig", "rig")
        self._answer = answer

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        token = execution.argv[3]
        for piece in self._answer:
            execution.out.feed(piece.replace("TOKEN", token).encode())
        for _ in pieces(execution.stdin):
            pass
        return 0

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "answer",
    [
        ["Welcome\nno newline", "TOKEN begin 7\nlook", "ing\nre", "ady\n"],
        [*"ready Welcome\n", "TOKEN begin 7\nlooking\nready\n"],
    ],
)
def test_words_of_a_login_shell_and_torn_lines_are_put_right(answer: list[str]) -> None:
    held = Odd(*answer).hold(["x"], ready=b"ready", deadline_s=LONG)

    assert held.lines == ("looking", "ready")
    held.release()
    assert b"Welcome" in held.error_output


def test_a_flood_is_not_kept(here: Connection) -> None:
    program = "yes flood | head -n 200000; echo ready"

    held = here.hold(["sh", "-c", program], ready=b"ready", deadline_s=LONG)

    assert held.ended == 0
    assert 1000 < sum(map(len, held.lines)) < 70_000


def _python(program: str, *words: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=LONG,
    )
    assert done.returncode == code, done.stderr.decode()


_HOLD = """
import sys
from rigops.transport import LOCAL, HostKeyPolicy, connect
here = connect(LOCAL, host_keys=HostKeyPolicy())
program, heard = sys.argv[1:]
held = here.hold(["sh", "-c", program, heard], ready=b"ready", deadline_s=60)
"""


@pytest.mark.parametrize("close", ["", "here.close()"])
def test_it_does_not_hold_up_the_end_of_our_process_and_ends_with_it(
    tmp_path: Path, close: str
) -> None:
    heard = tmp_path / "heard"

    _python(_HOLD + close, ECHO, str(heard), code=0)

    until(lambda: text(heard) == "end\n")


# As soon as the command runs and our thread waits for what it says.
_INTERRUPTED = f"""
import os, queue, signal, sys, threading, time
def waits(frame):
    return frame is not None and (frame.f_code is queue.Queue.get.__code__ or waits(frame.f_back))
def interrupt():
    while not (os.path.exists(sys.argv[2]) and waits(sys._current_frames()[main])):
        time.sleep(0.01)
    while waits(sys._current_frames()[main]):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)  # Python does not see one that comes between its last look and its waiting
main = threading.get_ident()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
threading.Thread(target=interrupt, daemon=True).start()
try:
    {_HOLD.replace(chr(10), chr(10) + "    ")}
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_gets_through_while_it_is_waited_for(tmp_path: Path) -> None:
    heard = tmp_path / "heard"

    _python(_INTERRUPTED, ECHO.replace("ready", 'begun >>"$0"'), str(heard), code=130)

    until(lambda: text(heard) == "begun\nend\n")


# Each is ready when all have begun.
_UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import sys, gevent
from rigops.transport import LOCAL, HostKeyPolicy, connect

BEGINS = 'touch "$0/$1"; until [ "$(ls "$0" | wc -l)" -eq 4 ]; do sleep 0.01; done; echo ready; '

def one(number):
    with connect(LOCAL, host_keys=HostKeyPolicy()) as here:
        held = here.hold(["sh", "-c", BEGINS + "grep -m1 b; exit 3", sys.argv[1], str(number)],
                         ready=b"ready", deadline_s=60)
        out = here.run(["echo", "x"], deadline_s=60).stdout
        assert held.ended is None
        held.release(b"a\\nb\\n")
        while held.ended is None:
            gevent.sleep(0.01)
        return held.ended, out

jobs = [gevent.spawn(one, number) for number in range(4)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs] == [(3, b"x\\n")] * 4, jobs
"""


def test_greenlets_hold_at_the_same_time(tmp_path: Path) -> None:
    _python(_UNDER_GEVENT, str(tmp_path), code=0)


def test_ctrl_c_that_comes_as_it_begins_to_wait_is_heard_within_one_slice(
    here: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that another thread gets does not end a wait, as one just before it does not."""
    asked: list[float] = []
    interrupting = threading.Thread(target=signal.raise_signal, args=(signal.SIGINT,))

    class Lines(Queue[str]):
        def get(self, block: bool = True, timeout: float | None = None) -> str:  # noqa: FBT001, FBT002 - the queue's
            asked.append(timeout or LONG)
            if not interrupting.ident:
                interrupting.start()
            return super().get(block, timeout)

    monkeypatch.setattr(holding, "Queue", Lines)

    with pytest.raises(KeyboardInterrupt):
        here.hold(["sh", "-c", "read -r _"], stdin=b"", ready=b"never", deadline_s=LONG)

    assert max(asked) <= SLICE_S
