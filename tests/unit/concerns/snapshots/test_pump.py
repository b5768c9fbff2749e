"""Streams between programs, of which either may fall silent."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.snapshots.host.pump import SilentError, pump, pump_checked
from rigops.concerns.snapshots.host.send_stream import StreamCheck, StreamError
from tests import send_streams as made

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON_S = 0.1  # of what never comes
MEGABYTES = bytes(range(256)) * (12 << 10)


class Pipes:
    """`source` is written to by a sender, `sink` read by a receiver."""

    def __init__(self) -> None:
        self.source, self.sender = os.pipe()
        self.receiver, self.sink = os.pipe()
        self.counted = 0
        self.received = b""

    def count(self, moved: int) -> None:
        self.counted += moved

    def send(self, stream: bytes) -> None:
        with suppress(BrokenPipeError), os.fdopen(self.sender, "wb") as sender:
            sender.write(stream)

    def receive(self) -> None:
        with os.fdopen(self.receiver, "rb") as receiver:
            self.received = receiver.read()


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    found = Pipes()
    yield found
    for number in (found.source, found.sender, found.receiver, found.sink):
        with suppress(OSError):
            os.close(number)


def both(pipes: Pipes, stream: bytes) -> list[threading.Thread]:
    ends = [
        threading.Thread(target=pipes.send, args=(stream,)),
        threading.Thread(target=pipes.receive),
    ]
    for one in ends:
        one.start()
    return ends


@pytest.mark.parametrize("without", ["", "splice"])
def test_all_of_it_arrives_and_is_counted(
    pipes: Pipes, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:  # before Python 3.10
        monkeypatch.delattr(os, without, raising=False)
    ends = both(pipes, MEGABYTES)

    pump(pipes.source, pipes.sink, pipes.count)
    os.close(pipes.sink)
    for one in ends:
        one.join(30)

    assert pipes.received == MEGABYTES
    assert pipes.counted == len(MEGABYTES)


def test_what_is_checked_arrives_as_it_is(pipes: Pipes) -> None:
    part = made.write(b"a", MEGABYTES[:60000])
    stream = made.begin() + part * 100 + made.end()
    check = StreamCheck(made.FULL, (), lambda *_: False)
    ends = both(pipes, stream)

    pump_checked(pipes.source, pipes.sink, check, pipes.count)
    os.close(pipes.sink)
    for one in ends:
        one.join(30)

    check.finish()
    assert pipes.received == stream
    assert pipes.counted == len(stream)


def test_of_what_is_refused_the_receiver_sees_only_what_was_before(pipes: Pipes) -> None:
    good = made.begin() + made.mkfile(b"good")
    check = StreamCheck(made.FULL, (), lambda *_: False)
    pipes.send(good + made.mkfile(b"../evil"))

    with pytest.raises(StreamError, match="leads elsewhere"):
        pump_checked(pipes.source, pipes.sink, check, pipes.count)
    os.close(pipes.sink)
    pipes.receive()

    assert good.startswith(pipes.received)


def test_a_sender_that_falls_silent_is_no_sender(pipes: Pipes) -> None:
    os.write(pipes.sender, b"begun")

    with pytest.raises(SilentError, match="nothing came"):
        pump(pipes.source, pipes.sink, pipes.count, SOON_S)


def test_a_receiver_that_takes_nothing_is_no_receiver(pipes: Pipes) -> None:
    stream = made.begin() + made.write(b"a", bytes(60000)) * 100
    check = StreamCheck(made.FULL, (), lambda *_: False)
    sender = threading.Thread(target=pipes.send, args=(stream,))
    sender.start()

    with pytest.raises(SilentError, match="nothing was taken"):
        pump_checked(pipes.source, pipes.sink, check, pipes.count, SOON_S)
    with pytest.raises(SilentError, match="nothing was taken"):
        pump(pipes.source, pipes.sink, pipes.count, SOON_S)
    os.close(pipes.source)
    sender.join(30)


def test_where_nobody_reads_it_ends_though_the_sender_is_silent(pipes: Pipes) -> None:
    os.close(pipes.receiver)

    pump(pipes.source, pipes.sink, pipes.count)

    assert pipes.counted == 0
