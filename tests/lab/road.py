"""A road to a host on which packets can be lost: all of them, in both directions, for a while.

Who waits gets no answer and no refusal, as where a cable is out. A filter on the sockets drops what
comes before the kernel acknowledges it, which needs no right over the machine's network.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Final

from tests.lab import clients, seed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from tests.lab.hosts import Host

_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)  # a program of one word: keep 0 bytes
_CHUNK: Final = 1 << 16
_BACKLOG: Final = 20


class Road:
    """`end`: where it leads, which may change: a man in the middle takes the place of the host."""

    def __init__(self, host: Host) -> None:
        self.where = (host.address, clients.PROXY_PORT)
        self.end = (host.address, seed.SSHD_PORT)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(self.where)
        self._listening.listen(_BACKLOG)
        self._listening.settimeout(0)
        self._ways: set[_Way] = set()

    def open(self) -> None:
        self._thread.start()
        self._do(self._begin())

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._listening.close()

    def cut(self) -> None:
        """Who is on the way is lost for good: when the road is mended, both ends are strangers."""

        async def cut() -> None:
            _drop(self._listening)
            for way in self._ways:
                way.lose()

        self._do(cut())

    def mend(self) -> None:
        async def mend() -> None:
            with suppress(OSError):  # it was not cut
                self._listening.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            for way in [one for one in self._ways if one.is_lost]:
                way.find_each_other_gone()

        self._do(mend())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self) -> None:
        self._accepting = asyncio.ensure_future(self._accept())

    async def _accept(self) -> None:
        while True:
            here, _ = await self._loop.sock_accept(self._listening)
            here.settimeout(0)
            there = socket.socket()
            there.settimeout(0)
            try:
                await self._loop.sock_connect(there, self.end)
            except OSError:
                here.close()
                there.close()
                continue
            way = _Way(here, there)
            self._ways.add(way)
            way.ended.add_done_callback(lambda _: self._forget_ended())

    def _forget_ended(self) -> None:
        self._ways = {way for way in self._ways if not way.ended.done()}

    async def _end(self) -> None:
        self._accepting.cancel()
        ways = list(self._ways)
        for way in ways:
            way.end()
        await asyncio.gather(self._accepting, *(way.ended for way in ways), return_exceptions=True)


class _Way:
    """One connection."""

    def __init__(self, here: socket.socket, there: socket.socket) -> None:
        self._here, self._there = here, there
        self.is_lost = False
        self._is_mended = asyncio.Event()
        self._carrying = [
            asyncio.ensure_future(_carry(here, there)),
            asyncio.ensure_future(_carry(there, here)),
        ]
        self.ended = asyncio.ensure_future(self._whole())

    async def _whole(self) -> None:
        await asyncio.gather(*self._carrying, return_exceptions=True)
        if self.is_lost:
            await asyncio.gather(self._wait_for_the_host(), return_exceptions=True)
        self._here.close()
        self._there.close()

    async def _wait_for_the_host(self) -> None:
        """Nobody tells the host. Once it sends something on the mended road, it is refused."""
        with suppress(OSError):
            await asyncio.get_running_loop().sock_recv(self._there, 1)
        await self._is_mended.wait()
        _reset(self._there)

    def lose(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        with suppress(OSError):
            _drop(self._here)
        for one in self._carrying:
            one.cancel()

    def find_each_other_gone(self) -> None:
        _reset(self._here)
        self._is_mended.set()

    def end(self) -> None:
        for one in self._carrying:
            one.cancel()
        self.ended.cancel()


async def _carry(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await loop.sock_recv(source, _CHUNK):
            await loop.sock_sendall(target, data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _drop(sockets: socket.socket) -> None:
    program = ctypes.create_string_buffer(_DROP_ALL)
    given = struct.pack("HL", 1, ctypes.addressof(program))
    sockets.setsockopt(socket.SOL_SOCKET, _ATTACH, given)


def _reset(one: socket.socket) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


@contextmanager
def road_to(host: Host) -> Iterator[Road]:
    """The port that clients.PROXY_PORT names leads to the host, as long as this lasts."""
    road = Road(host)
    road.open()
    try:
        yield road
    finally:
        road.close()
