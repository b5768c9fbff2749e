"""Rung L1: copies of one GPU into the memory of another, read back by the owner of that memory."""

from __future__ import annotations

from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.verdict import Copied, Reading, classify, pattern, size_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.hostside.p2p.card import Card, Pair

TIMED_AT_MOST: Final = 64 << 20
_SAMPLES: Final = 5
_SAMPLE_MS: Final = 4.0  # at least: one copy between fast cards takes 0.04 ms and scatters by 15 %
_MOST_COPIES: Final = 256  # of a sample
_SMALLEST: Final = 4096


class Copies:
    """`sizes`: ascending."""

    def __init__(self, pair: Pair, sizes: Sequence[int]) -> None:
        self._pair = pair
        self._cuda = pair.cuda
        self._source = pair.source
        self._target = pair.target
        self._say = pair.say
        self._sizes = sizes
        self._timed = min(sizes[-1], TIMED_AT_MOST)

    # ---- data

    def try_all(self, passes: int, has_time: Callable[[], bool]) -> list[Copied]:
        """From small to large, until a size goes wrong."""
        copies: list[Copied] = []
        for size in self._sizes:
            for number in range(passes if size <= TIMED_AT_MOST else 1):
                if copies and number != 1 and not has_time():
                    return copies
                copies.append(self._try_copy(size))
            if not all(copied.right for copied in copies):
                break
        return copies

    def _fill(self, size: int) -> int:
        """Put a pattern that was never used before into the source, and poison into the target."""
        number = self._pair.next_pass()
        data = pattern(self._source.index, self._target.index, number, size)
        self._source.write(self._pair.origin, data)
        self._pair.poison(size)
        return number

    def _classify(self, received: bytearray, number: int) -> Reading:
        return classify(received, self._source.index, self._target.index, number)

    def through_host(self) -> Reading:
        """Take the same data through pinned memory of the host, which needs no peer access."""
        size = self._timed
        self._say(step=f"control: {size_name(size)} through the host's memory")
        number = self._fill(size)
        self._source.use()
        pinned = self._cuda.handle("cuMemAllocHost_v2", size)
        self._cuda.do("cuMemcpyDtoH_v2", pinned, self._pair.origin, size)
        self._target.use()
        self._cuda.do("cuMemcpyHtoD_v2", self._pair.to, pinned, size)
        self._cuda.do("cuCtxSynchronize")
        reading = self._classify(self._target.read(self._pair.to, size), number)
        self._source.use()
        self._cuda.do("cuMemFreeHost", pinned)
        return reading

    def _try_copy(self, size: int) -> Copied:
        self._say(step=f"copy of {size_name(size)}")
        number = self._fill(size)
        self._copy(size)
        self._source.wait(self._say)
        reading = self._classify(self._target.read(self._pair.to, size), number)
        intact = self._pair.are_guards_intact(size)
        seen = not reading.right and self._classify(self._writer_reads(size), number).right
        return Copied(size, reading, seen, intact)

    def _writer_reads(self, size: int) -> bytearray:
        """Let the writer fetch what it wrote, over the same road."""
        self._say(step=f"reading {size_name(size)} back as the writer")
        scratch = self._source.memory(size)
        self._cuda.do("cuMemcpyDtoDAsync_v2", scratch, self._pair.to, size, self._source.stream)
        self._source.wait(self._say)
        back = self._source.read(scratch, size)
        self._cuda.do("cuMemFree_v2", scratch)
        return back

    def _copy(self, size: int) -> None:
        self._move(self._pair.to, self._target, self._pair.origin, self._source, size)

    def _move(self, to: int, receiver: Card, origin: int, sender: Card, size: int) -> None:
        sender.use()
        self._cuda.do(
            "cuMemcpyPeerAsync", to, receiver.context, origin, sender.context, size, sender.stream
        )

    # ---- speed

    def latency_us(self) -> float:
        size = min(_SMALLEST, self._timed)
        self._sample(size, 1)
        taken = [self._sample(size, 1) for _ in range(_SAMPLES)]
        return round(median(taken) * 1000, 3)

    def rates(self) -> list[float]:
        """GB/s of each sample."""
        return rates_of(self._timed, self._sample)

    def rates_both_ways(self) -> list[float]:
        self._say(step="timing both ways at once")
        back_from = self._target.memory(self._timed)
        back_to = self._source.memory(self._timed)

        def sample(size: int, copies: int) -> float:
            self._source.mark(self._source.start)
            self._target.mark(self._target.start)
            for _ in range(copies):
                self._copy(size)
                self._move(back_to, self._source, back_from, self._target, size)
            self._source.mark(self._source.end)
            self._target.mark(self._target.end)
            self._source.wait(self._say)
            self._target.wait(self._say)
            return max(self._source.milliseconds(), self._target.milliseconds())

        return [2 * rate for rate in rates_of(self._timed, sample)]

    def _sample(self, size: int, copies: int) -> float:
        """Milliseconds that so many took, one after the other."""
        self._source.mark(self._source.start)
        for _ in range(copies):
            self._copy(size)
        self._source.mark(self._source.end)
        self._source.wait(self._say)
        return self._source.milliseconds()


def rates_of(size: int, sample: Callable[[int, int], float]) -> list[float]:
    """In GB/s. The first copy is not counted: it maps the memory and wakes the link."""
    sample(size, 1)
    copies = _copies_of_a_sample(sample(size, 1))
    taken = [sample(size, copies) for _ in range(_SAMPLES)]
    return [copies * size / milliseconds / 1e6 for milliseconds in taken if milliseconds > 0]


def _copies_of_a_sample(milliseconds: float) -> int:
    """`milliseconds`: that one copy takes."""
    return min(_MOST_COPIES, max(1, ceil(_SAMPLE_MS / milliseconds))) if milliseconds > 0 else 1
