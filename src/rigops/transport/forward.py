"""Lends the local ssh agent to a session on the host."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rigops.transport.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

_BLOCK: Final = 16 * 1024


def forward_agent(channel: paramiko.Channel, agent_socket: str) -> Callable[[], None]:
    """Ask the server to forward; gives the call that ends it."""
    streams: list[socket.socket | paramiko.Channel] = []
    workers: list[Worker[None]] = []
    lock = threading.Lock()

    def opened(remote: paramiko.Channel) -> None:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            local.connect(agent_socket)
        except OSError:
            local.close()
            Worker(remote.close)
            return
        with lock:
            streams.extend((local, remote))
            workers.append(Worker(lambda: _pump(local, remote)))
            workers.append(Worker(lambda: _pump(remote, local)))

    def close() -> None:
        with lock:
            for stream in streams:
                with suppress(OSError, EOFError):
                    stream.shutdown(socket.SHUT_RDWR)
            for worker in workers:
                worker.finish(1)
            for stream in streams:
                with suppress(OSError, EOFError):
                    stream.close()

    channel.request_forward_agent(opened)
    return close


def _pump(source: socket.socket | paramiko.Channel, sink: socket.socket | paramiko.Channel) -> None:
    with suppress(OSError, EOFError):
        while data := source.recv(_BLOCK):
            sink.sendall(data)
    with suppress(OSError, EOFError):
        sink.shutdown(socket.SHUT_WR)
