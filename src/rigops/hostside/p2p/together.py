"""Rung L4: every pair at once, by copies and by kernels, each checked by the owner of the memory.

A path that works alone can fail or hang when all cards and their bridges are busy.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.card import Card, Gpu, Pair
from rigops.hostside.p2p.cuda import Cuda, CudaError
from rigops.hostside.p2p.kernels import Kernels
from rigops.hostside.p2p.verdict import pattern, size_name
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


def together_job(pairs: Sequence[tuple[Gpu, Gpu]]) -> Callable[[Say], None]:
    """Make the job of a watched child. It answers with each pair, and what was wrong with it."""

    def job(say: Say) -> None:
        say(step="cuInit")
        cuda = Cuda()
        cuda.do("cuInit", 0)
        say(step="opening all GPUs", ready=True)
        roads = [_Road(cuda, *gpus) for gpus in pairs]
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
        say(
            answer=[{"pair": road.pair, "wrong": road.wrong, "error": road.error} for road in roads]
        )

    return job


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


class _Road:
    """One pair among all."""

    def __init__(self, cuda: Cuda, source: Gpu, target: Gpu) -> None:
        self._cuda = cuda
        self._gpus = (source, target)
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
