"""GPUs as a child of preflight uses them: one with its memory, stream and clock, and two."""

from __future__ import annotations

import time
from ctypes import c_char
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.cuda import (
    MAP_FAILED,
    NOT_READY,
    PEER_ENABLED,
    PEER_NOT_ENABLED,
    PEER_UNSUPPORTED,
    Cuda,
    CudaError,
)
from rigops.hostside.p2p.verdict import PAGE, POISON, poison

if TYPE_CHECKING:
    from rigops.hostside.p2p.watched import Say

_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.02
_NEWS_EVERY: Final = 2.0


@dataclass(frozen=True)
class Gpu:
    """As the census numbered it. By its address it is found even when another left the bus."""

    index: int
    address: str


class Card:
    def __init__(self, cuda: Cuda, gpu: Gpu) -> None:
        self._cuda = cuda
        self.index = gpu.index
        self.device = cuda.number("cuDeviceGetByPCIBusId", gpu.address.encode())
        self.context = cuda.handle("cuDevicePrimaryCtxRetain", self.device)
        self.use()
        self.stream = cuda.handle("cuStreamCreate", 0)
        self.start = cuda.handle("cuEventCreate", 0)
        self.end = cuda.handle("cuEventCreate", 0)

    def use(self) -> None:
        self._cuda.do("cuCtxSetCurrent", self.context)

    # ---- memory

    def memory(self, size: int) -> int:
        self.use()
        return self._cuda.memory(size)

    def free_memory(self) -> int:
        self.use()
        return self._cuda.free_memory()

    def write(self, to: int, data: bytes) -> None:
        self.use()
        self._cuda.do("cuMemcpyHtoD_v2", to, data, len(data))
        self._cuda.do("cuCtxSynchronize")

    def fill(self, to: int, word: int, size: int) -> None:
        self.use()
        self._cuda.do("cuMemsetD32_v2", to, word, size // 4)
        self._cuda.do("cuCtxSynchronize")

    def read(self, address: int, size: int) -> bytearray:
        self.use()
        received = bytearray(size)
        buffer = (c_char * size).from_buffer(received)
        self._cuda.do("cuMemcpyDtoH_v2", buffer, address, size)
        return received

    # ---- time

    def mark(self, event: int) -> None:
        self.use()
        self._cuda.do("cuEventRecord", event, self.stream)

    def milliseconds(self) -> float:
        self.use()
        return self._cuda.milliseconds(self.start, self.end)

    def has_ended(self, stream: int) -> bool:
        """Whether nothing is left to do on it."""
        self.use()
        code = self._cuda.code("cuStreamQuery", stream)
        if code not in (0, NOT_READY):
            raise CudaError("cuStreamQuery", code, self._cuda.name(code))
        return code == 0

    def wait(self, say: Say) -> None:
        """Poll, so that this thread can go on reporting that it still runs."""
        start = news = time.monotonic()
        nap = _FIRST_NAP
        while not self.has_ended(self.stream):
            now = time.monotonic()
            if now - news >= _NEWS_EVERY:
                news = now
                say(still=now - start)
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)


GUARD: Final = PAGE
_CLOSED_BACK: Final = frozenset((PEER_UNSUPPORTED, PEER_NOT_ENABLED, MAP_FAILED))


class Pair:
    def __init__(self, cuda: Cuda, source: Card, target: Card, largest: int, say: Say) -> None:
        self.cuda = cuda
        self.source = source
        self.target = target
        self.say = say
        self.origin = source.memory(largest)
        self.guarded = target.memory(largest + 2 * GUARD)
        self.to = self.guarded + GUARD
        self.is_open_back = False  # whether the target reaches memory of the source as well
        self._passes = 0

    def next_pass(self) -> int:
        """A number that no pass before had, so that its data is that of no other."""
        self._passes += 1
        return self._passes

    def poison(self, size: int) -> None:
        """Everything into which `size` bytes are to come, guards included."""
        self.target.fill(self.guarded, POISON, size + 2 * GUARD)

    def are_guards_intact(self, size: int) -> bool:
        ends = (self.guarded, self.to + size)
        return all(self.target.read(address, GUARD) == poison(GUARD) for address in ends)

    def enable(self) -> str | None:
        """Open the road in both directions; the opposite one may be closed. Gives a refusal."""
        self.say(step="enabling peer access")
        self.source.use()
        code = self.cuda.code("cuCtxEnablePeerAccess", self.target.context, 0)
        if code not in (0, PEER_ENABLED):
            return str(CudaError("cuCtxEnablePeerAccess", code, self.cuda.name(code)))
        self.target.use()
        code = self.cuda.code("cuCtxEnablePeerAccess", self.source.context, 0)
        self.is_open_back = code in (0, PEER_ENABLED)
        if not self.is_open_back and code not in _CLOSED_BACK:
            raise CudaError("cuCtxEnablePeerAccess", code, self.cuda.name(code))
        return None
