"""Rung L1: copies of one GPU into the memory of another, read back by the owner of that memory."""

from __future__ import annotations

import sys
import time
from ctypes import c_char
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.p2p.cuda import (
    DEVICE_UNAVAILABLE,
    NO_MEMORY,
    NOT_READY,
    PEER_ENABLED,
    PEER_NOT_ENABLED,
    PEER_UNSUPPORTED,
    Cuda,
    CudaError,
    NoLibraryError,
)
from rigops.hostside.p2p.verdict import (
    PAGE,
    POISON,
    Copied,
    Reading,
    classify,
    judge_data,
    judge_speed,
    pattern,
    poison,
    size_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.hostside.p2p.watched import Say

GUARD: Final = PAGE
TIMED_AT_MOST: Final = 64 << 20
_SPARE: Final = 64 << 20  # memory that is left to others on each card
_BUFFERS: Final = 3  # on each card and on the host, each as large as the largest copy
_ROUNDS: Final = 6  # the first one is not counted: it maps the memory and wakes the link
_SMALLEST: Final = 4096
_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.02
_NEWS_EVERY: Final = 2.0
_EXCLUSIVE: Final = frozenset((NO_MEMORY, DEVICE_UNAVAILABLE))


@dataclass(frozen=True)
class CopyPlan:
    source: int
    target: int
    sizes: tuple[int, ...]
    passes: int
    back: bool  # whether the opposite direction is granted too
    seconds: float  # after these, nothing more is begun that can be left out


def copy_job(plan: CopyPlan) -> Callable[[Say], None]:
    """Make the job of a watched child."""

    def job(say: Say) -> None:
        say(step="cuInit")
        try:
            cuda = Cuda()
            cuda.do("cuInit", 0)
            say(step="opening both GPUs")
            cards = _Card(cuda, plan.source), _Card(cuda, plan.target)
        except (CudaError, NoLibraryError) as error:
            say(answer=_refusal(error))
            return
        say(step="allocating memory", ready=True)
        try:
            answer = _Pair(cuda, plan, cards[0], cards[1], say).answer()
        except CudaError as error:
            answer = _refusal(error)
        say(answer=answer)
        # Contexts go with the process: their own clean-up could hang after all that was proven.

    return job


def _refusal(error: Exception) -> dict[str, Any]:
    busy = isinstance(error, CudaError) and error.code in _EXCLUSIVE
    why = ["the GPU is in use by others, or its memory is"] if busy else []
    return {"verdict": "skipped" if busy else "error", "evidence": [str(error), *why]}


class _Card:
    """A GPU with its primary context and a stream."""

    def __init__(self, cuda: Cuda, index: int) -> None:
        self._cuda = cuda
        self.index = index
        device = cuda.number("cuDeviceGet", index)
        self.context = cuda.handle("cuDevicePrimaryCtxRetain", device)
        self.use()
        self.stream = cuda.handle("cuStreamCreate", 0)
        self.start = cuda.handle("cuEventCreate", 0)
        self.end = cuda.handle("cuEventCreate", 0)

    def use(self) -> None:
        self._cuda.do("cuCtxSetCurrent", self.context)

    def memory(self, size: int) -> int:
        self.use()
        return self._cuda.memory(size)

    def free_memory(self) -> int:
        self.use()
        return self._cuda.free_memory()

    def mark(self, event: int) -> None:
        self.use()
        self._cuda.do("cuEventRecord", event, self.stream)

    def milliseconds(self) -> float:
        self.use()
        return self._cuda.milliseconds(self.start, self.end)


class _Pair:
    def __init__(self, cuda: Cuda, plan: CopyPlan, one: _Card, other: _Card, say: Say) -> None:
        self._cuda = cuda
        self._plan = plan
        self._source = one
        self._target = other
        self._say = say
        self._number = 0
        self._late = time.monotonic() + plan.seconds
        free = min(one.free_memory(), other.free_memory()) - _SPARE
        free = min(free, _host_memory())
        self._sizes = [size for size in plan.sizes if _BUFFERS * (size + 2 * GUARD) <= free]
        self._largest = max(self._sizes, default=0)
        self._timed = min(self._largest, TIMED_AT_MOST)

    def answer(self) -> dict[str, Any]:
        if not self._sizes:
            return {"verdict": "skipped", "evidence": ["there is not enough free GPU memory"]}
        self._from = self._source.memory(self._largest)
        self._guarded = self._target.memory(self._largest + 2 * GUARD)
        self._to = self._guarded + GUARD
        control = self._through_host()
        self._say(step="timing copies staged by the driver")
        staged = self._rate()
        refused = self._enable()
        if refused is not None:
            return refused
        copies = self._try_copies()
        verdict, evidence = judge_data(copies, control)
        self._say(step="timing direct copies")
        rate = self._rate()
        both = self._rate_both_ways() if self._plan.back and self._has_time() else None
        latency = round(self._timed_copies(min(_SMALLEST, self._largest)) * 1000, 3)
        if verdict == "ok":
            verdict, evidence = judge_speed(rate, staged)
        sizes = ", ".join(dict.fromkeys(size_name(copied.size) for copied in copies))
        return {
            "verdict": verdict,
            "gb_per_s": rate,
            "both_ways_gb_per_s": both,
            "staged_gb_per_s": staged,
            "latency_us": latency,
            "evidence": evidence
            or [f"{len(copies)} copies of {sizes} arrived whole, as their owner reads them"],
        }

    def _has_time(self) -> bool:
        return time.monotonic() < self._late

    # ---- data

    def _try_copies(self) -> list[Copied]:
        """From small to large, until a size goes wrong."""
        copies: list[Copied] = []
        for size in self._sizes:
            for number in range(self._plan.passes if size <= TIMED_AT_MOST else 1):
                if copies and number != 1 and not self._has_time():
                    return copies
                copies.append(self._try_copy(size))
            if not all(copied.right for copied in copies):
                break
        return copies

    def _fill(self, size: int) -> None:
        """Put a pattern that was never used before into the source, and poison into the target."""
        self._number += 1
        data = pattern(self._source.index, self._target.index, self._number, size)
        self._source.use()
        self._cuda.do("cuMemcpyHtoD_v2", self._from, data, size)
        self._cuda.do("cuCtxSynchronize")
        self._target.use()
        words = (size + 2 * GUARD) // 4
        self._cuda.do("cuMemsetD32_v2", self._guarded, POISON, words)
        self._cuda.do("cuCtxSynchronize")

    def _read(self, card: _Card, address: int, size: int) -> bytearray:
        card.use()
        received = bytearray(size)
        buffer = (c_char * size).from_buffer(received)
        self._cuda.do("cuMemcpyDtoH_v2", buffer, address, size)
        return received

    def _classify(self, received: bytearray) -> Reading:
        return classify(received, self._source.index, self._target.index, self._number)

    def _through_host(self) -> Reading:
        """Take the same data through pinned memory of the host, which needs no peer access."""
        size = self._timed
        self._say(step=f"control: {size_name(size)} through the host's memory")
        self._fill(size)
        self._source.use()
        pinned = self._cuda.handle("cuMemAllocHost_v2", size)
        self._cuda.do("cuMemcpyDtoH_v2", pinned, self._from, size)
        self._target.use()
        self._cuda.do("cuMemcpyHtoD_v2", self._to, pinned, size)
        self._cuda.do("cuCtxSynchronize")
        reading = self._classify(self._read(self._target, self._to, size))
        self._source.use()
        self._cuda.do("cuMemFreeHost", pinned)
        return reading

    def _try_copy(self, size: int) -> Copied:
        self._say(step=f"copy of {size_name(size)}")
        self._fill(size)
        self._copy(size)
        self._wait(self._source)
        reading = self._classify(self._read(self._target, self._to, size))
        guards = [
            self._read(self._target, address, GUARD) for address in (self._guarded, self._to + size)
        ]
        seen = not reading.right and self._classify(self._writer_reads(size)).right
        return Copied(size, reading, seen, all(guard == poison(GUARD) for guard in guards))

    def _writer_reads(self, size: int) -> bytearray:
        """Let the writer fetch what it wrote, over the same road."""
        self._say(step=f"reading {size_name(size)} back as the writer")
        scratch = self._source.memory(size)
        self._cuda.do("cuMemcpyDtoDAsync_v2", scratch, self._to, size, self._source.stream)
        self._wait(self._source)
        back = self._read(self._source, scratch, size)
        self._cuda.do("cuMemFree_v2", scratch)
        return back

    # ---- access

    def _enable(self) -> dict[str, Any] | None:
        """Open the road in both directions; the opposite one may be closed."""
        self._say(step="enabling peer access")
        self._source.use()
        code = self._cuda.code("cuCtxEnablePeerAccess", self._target.context, 0)
        if code not in (0, PEER_ENABLED):
            granted = "the driver granted it and then refused"
            error = CudaError("cuCtxEnablePeerAccess", code, self._cuda.name(code))
            return {"verdict": "error", "evidence": [str(error), granted]}
        self._target.use()
        code = self._cuda.code("cuCtxEnablePeerAccess", self._source.context, 0)
        if code not in (0, PEER_ENABLED, PEER_UNSUPPORTED, PEER_NOT_ENABLED):
            raise CudaError("cuCtxEnablePeerAccess", code, self._cuda.name(code))
        return None

    # ---- moving

    def _copy(self, size: int) -> None:
        self._source.use()
        self._cuda.do(
            "cuMemcpyPeerAsync",
            self._to,
            self._target.context,
            self._from,
            self._source.context,
            size,
            self._source.stream,
        )

    def _wait(self, card: _Card) -> None:
        """Polls, so that this thread can go on reporting that it still runs."""
        start = news = time.monotonic()
        nap = _FIRST_NAP
        card.use()
        while True:
            code = self._cuda.code("cuStreamQuery", card.stream)
            if code == 0:
                return
            if code != NOT_READY:
                raise CudaError("cuStreamQuery", code, self._cuda.name(code))
            now = time.monotonic()
            if now - news >= _NEWS_EVERY:
                news = now
                self._say(still=now - start)
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    # ---- speed

    def _timed_copies(self, size: int) -> float:
        """Milliseconds of one copy: the median, without the first."""
        taken = []
        for _ in range(_ROUNDS):
            self._source.mark(self._source.start)
            self._copy(size)
            self._source.mark(self._source.end)
            self._wait(self._source)
            taken.append(self._source.milliseconds())
        return median(taken[1:])

    def _rate(self) -> float | None:
        return _gb_per_s(self._timed, self._timed_copies(self._timed))

    def _rate_both_ways(self) -> float | None:
        size = self._timed
        self._say(step="timing both ways at once")
        back_from = self._target.memory(size)
        back_to = self._source.memory(size)
        taken = []
        for _ in range(_ROUNDS):
            self._source.mark(self._source.start)
            self._target.mark(self._target.start)
            self._copy(size)
            self._target.use()
            self._cuda.do(
                "cuMemcpyPeerAsync",
                back_to,
                self._source.context,
                back_from,
                self._target.context,
                size,
                self._target.stream,
            )
            self._source.mark(self._source.end)
            self._target.mark(self._target.end)
            self._wait(self._source)
            self._wait(self._target)
            taken.append(max(self._source.milliseconds(), self._target.milliseconds()))
        return _gb_per_s(2 * size, median(taken[1:]))


def _host_memory() -> int:
    """Bytes that this host can give without swapping."""
    for line in Path("/proc/meminfo").read_text().split("\n"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return sys.maxsize


def _gb_per_s(size: int, milliseconds: float) -> float | None:
    return round(size / milliseconds / 1e6, 3) if milliseconds > 0 else None
