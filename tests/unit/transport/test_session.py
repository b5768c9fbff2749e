from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rigops.transport.ssh import Session

if TYPE_CHECKING:
    import socket


class Tunnel:
    """A channel of a connection that is gone: there is nobody who could be told of its end."""

    closed = _closed = False

    def settimeout(self, seconds: float | None) -> None:
        pass

    def send(self, data: bytes) -> int:
        return len(data)

    def recv(self, size: int) -> bytes:
        return b""

    def close(self) -> None:
        raise EOFError


def test_a_session_inside_one_that_is_gone_ends_without_a_trace_on_the_screen() -> None:
    """An error that nobody catches in its thread fails this test."""
    session = Session(cast("socket.socket", Tunnel()))

    session.start()
    session.join(60)

    assert not session.is_alive()
    assert not session.active
