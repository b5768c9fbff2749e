"""Rung L4: every pair at once, by copies and by kernels, each checked by the owner of the memory.

A path that works alone can fail, hang or be slow when all cards and their bridges are busy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.card import Card, Gpu, Pair
from rigops.hostside.p2p.cuda import Cuda, CudaError
from rigops.hostside.p2p.flows import Flow, run_flows, size_of_copies, turns
from rigops.hostside.p2p.kernels import Kernels
from rigops.hostside.p2p.verdict import POISON, pattern, size_name
from rigops.hostside.p2p.words import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.hostside.p2p.watched import Say

_EACH: Final = 1 << 20  # of each copy, and of the words that are stored behind it
_BOTH: Final = 2 * _EACH
_REPEATED: Final = 16  # copies of one round, so that all are under way at the same time
_TIMES: Final = 3
_NAP: Final = 0.002
_NEWS_OF_ALL: Final = 1.0
_LEFT_FREE: Final = 64 << 20  # of each card's memory


@dataclass(frozen=True)
class PlanOfAll:
    """`pairs`: with their GB/s alone. `largest`: copy. `seconds`: then no turn is timed."""

    pairs: Sequence[tuple[Gpu, Gpu, float]]
    largest: int
    seconds: float


def together_job(plan: PlanOfAll) -> Callable[[Say], None]:
    """Make the job of a watched child. It answers with each pair, and what was wrong with it."""

    def job(say: Say) -> None:
        say(step="cuInit")
        cuda = Cuda()
        cuda.do("cuInit", 0)
        say(step="opening all GPUs", ready=True)
        late = time.monotonic() + plan.seconds
        roads = [_Road(cuda, *gpus) for gpus in plan.pairs]
        opened = _Opened(cuda)
        _each(roads, lambda road: road.open(opened, say))
        for number in range(1, _TIMES + 1):
            _each(roads, _Road.prepare)
            say(step=f"all pairs at once, round {number} of {_TIMES}")
            for _ in range(_REPEATED):
                _each(roads, _Road.copy)
            _each(roads, _Road.store)
            _wait(roads, say)
            say(step=f"looking at round {number} of {_TIMES}")
            _each(roads, _Road.look)
        longest = (size_of_copies(alone, plan.largest) for *_, alone in plan.pairs)
        places = _Places(opened, max(longest))
        by_pair = {road.pair: road for road in roads if road.error is None and not road.wrong}
        every = turns(by_pair) if places.size else []
        for number, pairs in enumerate(every, 1):
            if time.monotonic() >= late:
                break
            say(step=f"timing turn {number} of {len(every)}")
            _time([by_pair[pair] for pair in pairs], places, number, say)
        say(answer=[road.answer() for road in roads])

    return job


def _time(roads: Sequence[_Road], places: _Places, turn: int, say: Say) -> None:
    _each(roads, lambda road: road.prepare_flow(places))

    def do(what: Callable[[Flow], None]) -> Sequence[Flow]:
        _each(roads, lambda road: what(road.flow))
        return [road.flow for road in roads if road.error is None]

    run_flows(do)
    _wait(roads, say)
    _each(roads, lambda road: road.look_at_flow(turn))


def _each(roads: Sequence[_Road], do: Callable[[_Road], None]) -> None:
    """Of those whose cards still answer."""
    for road in roads:
        if road.error is None:
            try:
                do(road)
            except CudaError as error:
                road.error = str(error)


def _wait(roads: Sequence[_Road], say: Say) -> None:
    news = time.monotonic()
    while True:
        _each(roads, _Road.ask)
        left = [road.pair for road in roads if road.error is None and not road.has_ended]
        if not left:
            return
        if time.monotonic() - news >= _NEWS_OF_ALL:
            news = time.monotonic()
            say(waiting=left)
        time.sleep(_NAP)


class _Opened:
    """Cards with their kernels, each opened once."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._cards: dict[int, Card] = {}
        self._kernels: dict[int, Kernels] = {}

    def card(self, gpu: Gpu) -> Card:
        if gpu.index not in self._cards:
            self._cards[gpu.index] = Card(self._cuda, gpu)
        return self._cards[gpu.index]

    def kernels(self, card: Card) -> Kernels:
        if card.index not in self._kernels:
            card.use()
            self._kernels[card.index] = Kernels(self._cuda)
        return self._kernels[card.index]

    def cards(self) -> list[Card]:
        return list(self._cards.values())


class _Places:
    """Memory on each card for one flow from it and one to it; of no size where there is none."""

    def __init__(self, opened: _Opened, largest: int) -> None:
        self.size = 0
        self.of: dict[int, tuple[int, int]] = {}
        try:
            free = min((card.free_memory() for card in opened.cards()), default=0)
            size = min(largest, (free - _LEFT_FREE) // 2)
            self.of = {
                card.index: (card.memory(size), card.memory(size)) for card in opened.cards()
            }
        except CudaError:
            return
        self.size = size


class _Road:
    """One pair among all."""

    def __init__(self, cuda: Cuda, source: Gpu, target: Gpu, alone: float) -> None:
        self._cuda = cuda
        self._gpus = (source, target)
        self._alone = alone
        self._rate: tuple[int, float | None] | None = None  # of which turn
        self.pair = (source.index, target.index)
        self.wrong: list[str] = []
        self.error: str | None = None
        self.has_ended = False
        self._number = 0

    def open(self, opened: _Opened, say: Say) -> None:
        source, target = map(opened.card, self._gpus)
        self._pair = Pair(self._cuda, source, target, _BOTH, say)
        self._kernels = opened.kernels(source)
        self.error = self._pair.enable()
        source.use()
        self._stream = self._cuda.handle("cuStreamCreate", 0)

    def _words(self) -> Words:
        return words_of(*self.pair, self._number)

    def _data(self) -> bytes:
        return pattern(*self.pair, self._number, _EACH)

    def prepare(self) -> None:
        self._number = self._pair.next_pass()
        self._pair.source.write(self._pair.origin, self._data())
        self._pair.poison(_BOTH)

    def copy(self) -> None:
        pair, source, target = self._pair, self._pair.source, self._pair.target
        source.use()
        self._cuda.do(
            "cuMemcpyPeerAsync",
            pair.to, target.context, pair.origin, source.context, _EACH, self._stream,
        )  # fmt: skip

    def store(self) -> None:
        self._pair.source.use()
        self._kernels.store(self._pair.to + _EACH, _EACH // 4, self._words(), self._stream)

    def ask(self) -> None:
        self.has_ended = self._pair.source.has_ended(self._stream)

    def look(self) -> None:
        found = bytes(self._pair.target.read(self._pair.to, _BOTH))
        if found[:_EACH] != self._data():
            self.wrong.append(f"round {self._number}: {size_name(_EACH)} of copies are wrong")
        if found[_EACH:] != self._words().as_bytes(_EACH // 4):
            self.wrong.append(f"round {self._number}: {size_name(_EACH)} of stores are wrong")
        if not self._pair.are_guards_intact(_BOTH):
            self.wrong.append("bytes beside the target were overwritten")

    # ---- rates

    def prepare_flow(self, places: _Places) -> None:
        """The ends of what is copied are checked."""
        pair = self._pair
        self._number = pair.next_pass()
        origin, to = places.of[pair.source.index][0], places.of[pair.target.index][1]
        size = size_of_copies(self._alone, places.size)
        checked = min(size, _EACH)
        self._ends = [(at, checked) for at in sorted({0, size - checked})]
        for at, length in self._ends:
            pair.source.write(origin + at, self._data()[:length])
            pair.target.fill(to + at, POISON, length)
        cards = pair.source, pair.target
        self._to = to
        self.flow = Flow(self._cuda, cards, (origin, to), size, self._stream)

    def look_at_flow(self, turn: int) -> None:
        self._rate = turn, self.flow.gb_per_s()
        for at, length in self._ends:
            if bytes(self._pair.target.read(self._to + at, length)) != self._data()[:length]:
                self.wrong.append(f"turn {turn}: {size_name(length)} of timed copies are wrong")

    def answer(self) -> dict[str, object]:
        turn, rate = self._rate or (0, None)
        return {
            "pair": self.pair,
            "wrong": self.wrong,
            "error": self.error,
            "turn": turn,
            "gb_per_s": rate,
        }
