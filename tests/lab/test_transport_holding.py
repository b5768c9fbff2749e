"""A command that is held over SSH, spoken natively and by the ssh program."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rigops.transport import Connection, HostKeyPolicy, connect
from rigops.transport.clock import Clock
from rigops.transport.route import resolve
from rigops.transport.ssh_program import ProgramConnection, open_program
from tests.lab.connecting import passes_under_gevent
from tests.lab.sshd import Lab, is_running, lab_with, until
from tests.shards import LAB_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_TRANSPORT)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from lab_with(tmp_path)


@pytest.fixture(params=["natively", "by the program"])
def connection(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Connection]:
    policy = HostKeyPolicy()
    if request.param == "natively":
        opened = connect(lab.target(), host_keys=policy)
    else:
        clock = Clock(20)
        opened = open_program(resolve(lab.target(), clock), policy, clock, "a test wants it")
        assert isinstance(opened, ProgramConnection)
    with opened:
        yield opened


def program() -> tuple[str, str]:
    """It has a word that no other process on this machine has."""
    word = f"held-{secrets.token_hex(8)}"
    text = (
        f": {word}; read -r a; read -r b; echo ready $a $b; "
        "while read -r line; do case $line in ?*) exit 5;; esac; done; exit 6"
    )
    return word, text


def test_it_goes_on_beside_others_until_it_is_released(connection: Connection) -> None:
    _, text = program()
    holding = connection.hold(["sh", "-c", text], stdin=b"a\nb\n", ready=b"ready", deadline_s=60)

    assert holding.lines == ("ready a b",)
    data = b"x" * 3_000_000
    assert connection.run(["cat"], stdin=data, deadline_s=60).stdout == data
    time.sleep(2.2)  # past a beat
    before = holding.ended
    holding.release(b"last\n")
    until(lambda: holding.ended is not None, "its end")
    assert (before, holding.ended) == (None, 5)
    assert connection.run(["echo", "on"], deadline_s=60).stdout == b"on\n"


def test_closing_the_connection_ends_it_and_waits_for_nothing(
    lab: Lab, connection: Connection
) -> None:
    word, text = program()
    threads = threading.active_count()
    holding = connection.hold(["sh", "-c", text], stdin=b"a\nb\n", ready=b"ready", deadline_s=60)
    asleep = lab.sshd.sessions()
    began = time.monotonic()

    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    try:
        connection.close()
        took = time.monotonic() - began
    finally:
        for pid in asleep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    assert took < 30  # nobody there answers
    until(lambda: not is_running(word), "its end there")
    until(lambda: holding.ended is not None, "its end here")
    assert holding.ended != 0
    until(lambda: threading.active_count() <= threads, "its threads to end")


def test_a_connection_that_is_cut_is_seen(lab: Lab, connection: Connection) -> None:
    word, text = program()
    holding = connection.hold(["sh", "-c", text], stdin=b"a\nb\n", ready=b"ready", deadline_s=60)

    lab.sshd.cut()

    until(lambda: holding.ended is not None, "the loss to be seen")
    assert holding.ended != 0
    until(lambda: not is_running(word), "its end there")
    holding.release(b"x\n")


_UNDER_GEVENT = """
def one(number):
    with connect(target, host_keys=HostKeyPolicy()) as connection:
        held = connection.hold(["sh", "-c", f"{together} held 4; echo ready; grep -m1 b; exit 3"],
                               stdin=b"a\\n", ready=b"ready", deadline_s=60)
        out = connection.run(["sh", "-c", f"{together} beside 4; echo x"], deadline_s=60).stdout
        before = held.ended
        held.release(b"b\\n")
        while held.ended is None:
            gevent.sleep(0.05)
        return before, held.ended, out

def left():
    connection = connect(target, host_keys=HostKeyPolicy())
    connection.hold(["sh", "-c", "echo ready; cat"], ready=b"ready", deadline_s=60)
    connection.close()

jobs = [gevent.spawn(one, number) for number in range(4)] + [gevent.spawn(left)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs[:4]] == [(None, 3, b"x\\n")] * 4, [job.value for job in jobs]
"""


def test_greenlets_hold_over_ssh_at_the_same_time(lab: Lab) -> None:
    passes_under_gevent(lab, _UNDER_GEVENT)
