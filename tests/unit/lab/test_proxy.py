"""The network in front of a host: delays and cuts."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab.proxy import Proxy, Weather
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.shard(LAB_ITSELF)

HERE = ("127.0.0.1", 0)


@dataclass(frozen=True)
class Line:
    proxy: Proxy
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def asks(self, text: bytes) -> bytes:
        self.writer.write(text)
        return await self.reader.readexactly(len(text))


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        writer.write(bytes(1 << 20))
        await writer.drain()
        await reader.read()
    writer.close()


def _address(server: asyncio.Server) -> tuple[str, int]:
    host, port = server.sockets[0].getsockname()
    return host, port


@asynccontextmanager
async def _line(
    weather: Weather,
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = _echo,
) -> AsyncIterator[Line]:
    target = await asyncio.start_server(serve, *HERE)
    proxy = Proxy(_address(target), weather)
    server = await proxy.serve(HERE)
    async with target, server:
        reader, writer = await asyncio.open_connection(*_address(server))
        yield Line(proxy, reader, writer)
        writer.transport.abort()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        if served:
            await asyncio.wait(served, timeout=5)
    await asyncio.sleep(0.01)  # in which transports close their sockets


def test_it_passes_everything_in_order_and_the_end_too() -> None:
    sent = bytes(range(256)) * 20_000

    async def talk() -> bytes:
        async with _line(Weather()) as line:
            line.writer.write(sent)
            line.writer.write_eof()
            return await line.reader.read()

    assert asyncio.run(talk()) == sent


def test_latency_is_that_of_a_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(seconds)

    async def talk() -> float:
        async with _line(Weather(latency=1)) as line:
            monkeypatch.setattr(asyncio, "sleep", sleep)
            began = time.monotonic()
            await line.asks(b"ping")
            monkeypatch.undo()
            return time.monotonic() - began

    assert asyncio.run(talk()) >= 1
    assert sum(slept) <= 1


def test_latency_is_no_bandwidth() -> None:
    async def talk() -> float:
        async with _line(Weather(latency=8)) as line:
            began = time.monotonic()
            line.writer.write(bytes(100_000))
            for _ in range(10):
                line.writer.write(b"more")
                await asyncio.sleep(0.01)
            await line.reader.readexactly(100_040)
            return time.monotonic() - began

    assert asyncio.run(talk()) < 8 + 30  # one after the other would be 48 or more


def test_a_change_reaches_a_connection_that_is_open() -> None:
    async def talk() -> tuple[bytes, bytes]:
        async with _line(Weather()) as line:
            before = await line.asks(b"before")
            line.proxy.weather = Weather(cut=6 + 6 + 2)
            line.writer.write(b"after")
            return before, await line.reader.read()

    assert asyncio.run(talk()) == (b"before", b"")


@pytest.mark.parametrize("limit", [1, 1000, 300_000])
def test_a_cut_comes_after_exactly_so_many_bytes(limit: int) -> None:
    async def talk() -> int:
        async with _line(Weather(cut=limit), _pour) as line:
            received = 0
            with suppress(ConnectionError):
                while data := await line.reader.read(1 << 16):
                    received += len(data)
            return received

    assert [asyncio.run(talk()) for _ in range(2)] == [limit, limit]


def test_a_cut_counts_both_directions() -> None:
    async def talk() -> bytes:
        async with _line(Weather(cut=10)) as line:
            await line.asks(b"four")
            line.writer.write(b"four")
            return await line.reader.read()

    assert asyncio.run(talk()) == b""


def test_a_server_that_is_away_ends_the_connection() -> None:
    async def talk() -> bytes:
        async with _line(Weather()) as line:
            line.proxy.target = ("127.0.0.1", 1)
            host, port = line.writer.get_extra_info("peername")
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(talk()) == b""


@pytest.mark.parametrize(
    ("text", "weather"),
    [
        ("latency= cut=", Weather()),
        ("latency=80 cut=", Weather(latency=0.08)),
        ("latency=0 cut=20000", Weather(cut=20000)),
    ],
)
def test_settings(text: str, weather: Weather) -> None:
    assert Weather.read(text) == weather
