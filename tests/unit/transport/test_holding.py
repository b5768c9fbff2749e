"""A command that is held: beside others, with its input open, until it is released."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.transport import LOCAL, Connection, HostKeyPolicy, TransportError, connect
from rigops.transport.connection import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.transport.connection import Execution

ROOT = Path(__file__).resolve().parents[3]

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
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_it_goes_on_beside_others_and_ends_after_its_last_line(
    here: Connection, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"

    holding = here.hold(
        ["sh", "-c", ECHO, str(heard)], stdin=b"first\n", ready=b"read", deadline_s=10
    )

    assert holding.lines == ("ready",)
    assert here.run(["echo", "beside"], deadline_s=10).stdout == b"beside\n"
    until(lambda: text(heard) == "first\n")
    before = holding.ended
    holding.release(b"last\n")
    assert before is None
    assert holding.ended == 0
    assert text(heard) == "first\nlast\nend\n"


def test_lines_before_it_is_ready_are_told_as_they_come(here: Connection) -> None:
    told: list[tuple[str, float]] = []
    program = "echo one; sleep 0.4; echo two; echo ready now; read -r _"

    holding = here.hold(
        ["sh", "-c", program],
        ready=b"ready",
        deadline_s=10,
        on_line=lambda line: told.append((line, time.monotonic())),
    )

    assert [line for line, _ in told] == ["one", "two"]
    assert told[1][1] - told[0][1] > 0.3
    assert holding.lines == ("one", "two", "ready now")
    holding.release()


def test_one_that_ends_instead_gives_its_code_and_its_words(here: Connection) -> None:
    holding = here.hold(
        ["sh", "-c", "echo no; printf cut; echo why >&2; exit 7"], ready=b"ready", deadline_s=10
    )

    assert holding.lines == ("no", "cut")
    assert holding.ended == 7
    assert holding.error_output == b"why\n"


def test_one_that_is_killed_is_seen_to_have_ended(here: Connection) -> None:
    holding = here.hold(["sh", "-c", "echo ready $$; exec cat"], ready=b"ready", deadline_s=10)

    # The shell's own kill: a bare Debian has no program of that name.
    here.run(["sh", "-c", f"kill -9 {holding.lines[0].split()[1]}"], deadline_s=10)

    until(lambda: holding.ended is not None)
    assert holding.ended == 137


def test_one_whose_frame_is_killed_too_is_seen_to_have_ended(here: Connection) -> None:
    program = "echo ready $PPID; kill -9 $PPID $$"

    holding = here.hold(["sh", "-c", program], ready=b"ready", deadline_s=10)

    until(lambda: holding.ended is not None)
    assert holding.ended == -1


def test_one_that_is_not_ready_in_time_closes_the_connection(
    here: Connection, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    began = time.monotonic()

    with pytest.raises(TransportError, match=r"waiting for sh did not finish within 0\.3 s"):
        here.hold(["sh", "-c", ECHO, str(heard)], ready=b"never", deadline_s=0.3)

    assert time.monotonic() - began < 5
    until(lambda: text(heard) == "end\n")
    with pytest.raises(TransportError, match="closed"):
        here.run(["true"], deadline_s=5)


def test_it_holds_on_longer_than_a_beat(here: Connection, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    holding = here.hold(["sh", "-c", ECHO, str(heard)], ready=b"ready", deadline_s=10)

    time.sleep(2.5)

    assert holding.ended is None
    holding.release()
    assert text(heard) == "end\n"


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
    holding = Odd(*answer).hold(["x"], ready=b"ready", deadline_s=5)

    assert holding.lines == ("looking", "ready")
    holding.release()
    assert b"Welcome" in holding.error_output


def test_a_flood_is_not_kept(here: Connection) -> None:
    program = "yes flood | head -n 200000; echo ready"

    holding = here.hold(["sh", "-c", program], ready=b"ready", deadline_s=20)

    assert holding.ended == 0
    assert 1000 < sum(map(len, holding.lines)) < 70_000


def _python(program: str, *words: str, code: int) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == code, done.stderr.decode()
    return time.monotonic() - began


_HOLD = """
import sys
from rigops.transport import LOCAL, HostKeyPolicy, connect
here = connect(LOCAL, host_keys=HostKeyPolicy())
program, heard = sys.argv[1:]
held = here.hold(["sh", "-c", program, heard], ready=b"ready", deadline_s=20)
"""


@pytest.mark.parametrize("close", ["", "here.close()"])
def test_it_does_not_hold_up_the_end_of_our_process_and_ends_with_it(
    tmp_path: Path, close: str
) -> None:
    heard = tmp_path / "heard"

    assert _python(_HOLD + close, ECHO, str(heard), code=0) < 5

    until(lambda: text(heard) == "end\n")


def test_an_interrupt_gets_through_while_it_is_waited_for(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    program = f"""
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {_HOLD.replace(chr(10), chr(10) + "    ")}
except KeyboardInterrupt:
    sys.exit(130)
"""

    assert _python(program, ECHO.replace("ready", "not yet"), str(heard), code=130) < 8

    until(lambda: text(heard) == "end\n")


_UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import time, gevent
from rigops.transport import LOCAL, HostKeyPolicy, connect

def one(number):
    with connect(LOCAL, host_keys=HostKeyPolicy()) as here:
        held = here.hold(["sh", "-c", "sleep 1; echo ready; grep -m1 b; exit 3"],
                         ready=b"ready", deadline_s=20)
        out = here.run(["sh", "-c", "sleep 0.5; echo x"], deadline_s=20).stdout
        assert held.ended is None
        held.release(b"a\\nb\\n")
        return held.ended, out

start = time.monotonic()
jobs = [gevent.spawn(one, number) for number in range(4)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs] == [(3, b"x\\n")] * 4, jobs
assert time.monotonic() - start < 6, time.monotonic() - start
"""


def test_greenlets_hold_at_the_same_time() -> None:
    _python(_UNDER_GEVENT, code=0)
