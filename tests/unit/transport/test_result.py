from __future__ import annotations

import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.transport import clock
from rigops.transport.clock import Clock, Watch
from rigops.transport.errors import TransportError, clean, timed_out
from rigops.transport.result import Framed, Store

TOKEN = "0123456789abcdef"


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(
    st.binary(max_size=80),
    st.binary(max_size=80),
    st.integers(0, 255),
    st.lists(st.integers(0, 1000), max_size=12),
)
def test_a_frame_is_found_however_the_stream_is_cut(
    noise: bytes, body: bytes, code: int, cuts: list[int]
) -> None:
    frame = Framed(TOKEN, 1000)
    start, end = f"{TOKEN} begin 77\n".encode(), f"{TOKEN} end {code}\n".encode()
    for piece in cut(noise + start + body + end, cuts):
        frame.feed(piece)
    frame.finish()
    assert (frame.noise.take(), frame.body.take()) == (noise, body)
    assert (frame.exit_code, frame.pid) == (code, 77)


@given(st.binary(max_size=80), st.integers(0, 30))
def test_a_frame_without_its_whole_end_is_not_complete(body: bytes, kept: int) -> None:
    frame = Framed(TOKEN, 1000)
    end = f"{TOKEN} end 0\n".encode()
    frame.feed(f"{TOKEN} begin 77\n".encode() + body + end[: min(kept, len(end) - 1)])
    frame.finish()
    assert frame.exit_code is None
    assert frame.body.take().startswith(body)


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=12))
def test_each_whole_line_is_passed_on_and_stored_however_the_stream_is_cut(
    body: bytes, cuts: list[int]
) -> None:
    lines: list[bytes] = []
    frame = Framed(TOKEN, 1000, lines.append)
    for piece in cut(f"{TOKEN} begin 77\n".encode() + body + f"{TOKEN} end 0\n".encode(), cuts):
        frame.feed(piece)
    frame.finish()
    assert lines == body.split(b"\n")[:-1]
    assert frame.body.take() == body


def test_a_stream_without_a_frame_is_all_noise() -> None:
    frame = Framed(TOKEN, 1000)
    frame.feed(b"This account is not available.")
    frame.finish()
    assert frame.began_at is None
    assert frame.noise.take() == b"This account is not available."


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(0, 100))
def test_a_store_keeps_the_beginning_and_counts_the_rest(parts: list[bytes], limit: int) -> None:
    store = Store(limit)
    for part in parts:
        store.feed(part)
    whole = b"".join(parts)
    assert store.take() == whole[:limit]
    assert store.dropped == max(len(whole) - limit, 0)


def test_what_a_host_says_is_shown_on_one_clean_line() -> None:
    assert clean(b"\x1b[31mred\x07\r\n\tand\xff more") == "[31mred and� more"
    assert clean("x" * 500).endswith("…")
    assert len(clean("x" * 500)) == 401


def test_a_timeout_names_host_step_and_seconds() -> None:
    error = timed_out("rig", "rig (me@10.0.0.5:22)", "the SSH handshake", 20, "is it on?")
    assert isinstance(error, TransportError)
    assert str(error) == "rig (me@10.0.0.5:22): the SSH handshake did not finish within 20 s"
    assert error.problems[0].host == "rig"
    assert error.problems[0].fix == "is it on?"


def test_a_watch_stops_what_is_late_and_leaves_alone_what_is_not() -> None:
    stopped = threading.Event()
    with Watch(Clock(0.05), stopped.set) as watch:
        assert stopped.wait(60)
    assert watch.expired
    with Watch(Clock(60), stopped.set) as watch:
        pass
    assert not watch.expired


def test_the_clock_stands_still_while_a_person_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    looked = threading.Semaphore(0)
    stopped = threading.Event()
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now))

    class Looked(Clock):
        def left(self) -> float:
            looked.release()
            return super().left()

    left = Looked(0.1)
    with Watch(left, stopped.set) as watch:
        with left.stopped():
            now += 100
            for _ in range(5):
                assert looked.acquire(timeout=60)
            assert not watch.expired
        assert left.left() == pytest.approx(0.1)
        now += 0.2
        assert stopped.wait(60)
    assert watch.expired


def test_an_opening_line_without_an_end_is_noise_and_takes_bounded_memory() -> None:
    frame = Framed(TOKEN, 1000)
    frame.feed(f"{TOKEN} begin ".encode())
    for _ in range(200):
        frame.feed(b"7" * 64 * 1024)
    frame.feed(f"\n{TOKEN} begin 77\nbody".encode())
    frame.finish()
    assert (frame.pid, frame.body.take()) == (77, b"body")
    assert len(frame.noise.take()) <= 64 * 1024
