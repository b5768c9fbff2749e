"""Rates of rung L4: each card sends to one other and receives from one, all at the same time.

Turn by turn every pair has its own. With more at once the cards' own links would be the limit, and
hide what is above them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.cuda import NOT_READY, CudaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rigops.hostside.p2p.card import Card
    from rigops.hostside.p2p.cuda import Cuda

    Indices = tuple[int, int]  # of the GPUs of a pair

_AHEAD: Final = 8  # copies that wait in a stream, so that it never runs dry
_COPY_MS: Final = 0.5  # that one takes when it is alone
_WINDOW_MS: Final = 10.0  # at least, while all are under way
_LEAST: Final = 4  # copies in it
_LONGEST_S: Final = 1.0
_PAUSE_OF_FLOWS: Final = 0.0002


def turns(pairs: Iterable[Indices]) -> list[list[Indices]]:
    """Each pair once; a card sends at most once in a turn, and receives at most once."""
    wanted = set(pairs)
    cards = sorted({card for pair in wanted for card in pair})
    shifted = (
        [(card, cards[(at + shift) % len(cards)]) for at, card in enumerate(cards)]
        for shift in range(1, len(cards))
    )
    found = ([pair for pair in turn if pair in wanted] for turn in shifted)
    return [turn for turn in found if turn]


def size_of_copies(gb_per_s: float, largest: int) -> int:
    """Short enough to wait for eight of them where they are many times slower together."""
    size = 64 << 10
    while size < gb_per_s * 1e6 * _COPY_MS:
        size *= 2
    while size > largest:
        size //= 2
    return size


class Flow:
    """Copies of one pair, one behind the other, until all have gone on for long enough."""

    def __init__(
        self, cuda: Cuda, cards: tuple[Card, Card], places: tuple[int, int], size: int, stream: int
    ) -> None:
        """`places`: in the memory of the source and of the target."""
        self._cuda = cuda
        self._source, self._target = cards
        self._from, self._to = places
        self._size = size
        self._stream = stream
        self._under_way: deque[int] = deque()  # events behind each copy
        self._spare: list[int] = []
        self._first: int | None = None
        self._last: int | None = None
        self._copies = 0  # since the first
        self._milliseconds = 0.0

    def begin(self) -> None:
        for _ in range(_AHEAD):
            self._send()

    def go_on(self) -> None:
        """Replace what has arrived. If all has, the stream ran dry, and the count begins again."""
        for _ in range(_AHEAD):
            event = self._under_way[0]
            self._source.use()
            code = self._cuda.code("cuEventQuery", event)
            if code == NOT_READY:
                return
            if code:
                raise CudaError("cuEventQuery", code, self._cuda.name(code))
            self._under_way.popleft()
            self._arrive(event)
            self._send()
        if self._first is not None:
            self._spare.append(self._first)
            self._first, self._copies, self._milliseconds = self._last, 0, 0.0

    def count_from_here(self) -> None:
        if self._first is None:
            self._first = self._last

    @property
    def has_arrived(self) -> bool:
        return self._last is not None

    @property
    def has_enough(self) -> bool:
        return self._milliseconds >= _WINDOW_MS and self._copies >= _LEAST

    def gb_per_s(self) -> float | None:
        """None: nothing arrived while all were under way."""
        if not self._milliseconds:
            return None
        return round(self._copies * self._size / self._milliseconds / 1e6, 3)

    def _send(self) -> None:
        self._source.use()
        event = self._spare.pop() if self._spare else self._cuda.handle("cuEventCreate", 0)
        self._cuda.do(
            "cuMemcpyPeerAsync",
            self._to, self._target.context, self._from, self._source.context,
            self._size, self._stream,
        )  # fmt: skip
        self._cuda.do("cuEventRecord", event, self._stream)
        self._under_way.append(event)

    def _arrive(self, event: int) -> None:
        if self._last is not None and self._last != self._first:
            self._spare.append(self._last)
        self._last = event
        if self._first is not None:
            self._copies += 1
            self._milliseconds = self._cuda.milliseconds(self._first, event)


def run_flows(living: Callable[[Callable[[Flow], None]], Sequence[Flow]]) -> None:
    """`living`: does something with each flow, and gives those whose cards still answer."""
    flows = living(Flow.begin)
    until = time.monotonic() + _LONGEST_S
    while not all(flow.has_enough for flow in flows) and time.monotonic() < until:
        flows = living(Flow.go_on)
        if all(flow.has_arrived for flow in flows):
            living(Flow.count_from_here)
        time.sleep(_PAUSE_OF_FLOWS)
