"""The tests between two GPUs, rung by rung, until one fails."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.accesses import judge_accesses, try_accesses
from rigops.hostside.p2p.card import GUARD, Card, Gpu, Pair
from rigops.hostside.p2p.copies import Copies
from rigops.hostside.p2p.cuda import (
    CANNOT_COMPILE,
    DEVICE_UNAVAILABLE,
    NO_MEMORY,
    Cuda,
    CudaError,
    NoLibraryError,
)
from rigops.hostside.p2p.flags import ROUNDS, judge_flags, try_flags
from rigops.hostside.p2p.kernels import Kernels, PtxError
from rigops.hostside.p2p.verdict import judge_data, judge_speed, size_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.hostside.p2p.answers import PairAnswer
    from rigops.hostside.p2p.watched import Say

_SPARE: Final = 64 << 20  # memory that is left to others on each card
_BUFFERS: Final = 3  # on each card and on the host, each as large as the largest copy
_PASSES_OF_WORDS: Final = 2  # the second finds what the first left behind
_JUDGED: Final = ("verdict", "evidence")
_EXCLUSIVE: Final = frozenset((NO_MEMORY, DEVICE_UNAVAILABLE))


@dataclass(frozen=True)
class PairPlan:
    source: Gpu
    target: Gpu
    sizes: tuple[int, ...]
    passes: int
    seconds: float  # after these, nothing more is begun that can be left out


def pair_job(plan: PairPlan) -> Callable[[Say], None]:
    """Make the job of a watched child."""

    def job(say: Say) -> None:
        say(step="cuInit")
        try:
            cuda = Cuda()
            cuda.do("cuInit", 0)
            say(step="opening both GPUs")
            cards = Card(cuda, plan.source), Card(cuda, plan.target)
        except (CudaError, NoLibraryError) as error:
            say(answer=_refusal(error))
            return
        say(step="allocating memory", ready=True)
        try:
            answer = _Ladder(cuda, plan, cards, say).answer()
        except CudaError as error:
            answer = _refusal(error)
        say(answer=answer)
        # Contexts go with the process: their own clean-up could hang after all that was proven.

    return job


def _refusal(error: Exception) -> PairAnswer:
    busy = isinstance(error, CudaError) and error.code in _EXCLUSIVE
    why = ["the GPU is in use by others, or its memory is"] if busy else []
    return {"verdict": "skipped" if busy else "error", "evidence": [str(error), *why]}


class _Ladder:
    def __init__(self, cuda: Cuda, plan: PairPlan, cards: tuple[Card, Card], say: Say) -> None:
        self._cuda = cuda
        self._plan = plan
        self._cards = cards
        self._say = say
        self._late = time.monotonic() + plan.seconds
        free = min(card.free_memory() for card in cards) - _SPARE
        free = min(free, _host_memory())
        self._sizes = [size for size in plan.sizes if _BUFFERS * (size + 2 * GUARD) <= free]

    def answer(self) -> PairAnswer:
        """`verdict`, `evidence`, and what was measured."""
        if not self._sizes:
            return {"verdict": "skipped", "evidence": ["there is not enough free GPU memory"]}
        pair = Pair(self._cuda, *self._cards, self._sizes[-1], self._say)
        found = self._copies(pair)
        self._say(measured={name: value for name, value in found.items() if name not in _JUDGED})
        if found["verdict"] in ("ok", "slower_than_staged"):
            found = self._above_copies(pair, found)
        return found

    def _has_time(self) -> bool:
        return time.monotonic() < self._late

    def _copies(self, pair: Pair) -> PairAnswer:
        self._say(rung="L1")
        copies = Copies(pair, self._sizes)
        control = copies.through_host()
        self._say(step="timing copies staged by the driver")
        staged = copies.rates()
        refusal = pair.enable()
        if refusal is not None:
            granted = "the driver granted it and then refused"
            return {"verdict": "error", "evidence": [refusal, granted]}
        tried = copies.try_all(self._plan.passes, self._has_time)
        verdict, evidence = judge_data(tried, control)
        self._say(step="timing direct copies")
        rates = copies.rates()
        both = copies.rates_both_ways() if pair.is_open_back and self._has_time() else []
        latency = copies.latency_us()
        if verdict == "ok":
            verdict, evidence = judge_speed(rates, staged)
        sizes = ", ".join(dict.fromkeys(size_name(copied.size) for copied in tried))
        return {
            "verdict": verdict,
            "gb_per_s": _median(rates),
            "both_ways_gb_per_s": _median(both),
            "staged_gb_per_s": _median(staged),
            "latency_us": latency,
            "evidence": evidence
            or [f"{len(tried)} copies of {sizes} arrived whole, as their owner reads them"],
        }

    def _above_copies(self, pair: Pair, copied: PairAnswer) -> PairAnswer:
        """A failure of these rungs comes first; what was found before stays beside it."""
        self._say(step="compiling kernels")
        try:
            kernels = self._kernels()
        except CudaError as error:
            if error.code not in CANNOT_COMPILE:
                raise
            log = error.log if isinstance(error, PtxError) else ""
            why = f"kernels cannot be compiled, so that only copies were tried: {error}"
            rest = [log.strip()] if log.strip() else []
            return {**copied, "evidence": [*copied["evidence"], why, *rest]}
        self._say(rung="L2")
        passes = min(self._plan.passes, _PASSES_OF_WORDS)
        tried = try_accesses(pair, kernels, self._sizes[-1], passes, self._has_time)
        verdict, evidence = judge_accesses(tried)
        if verdict != "ok":
            return {**copied, "verdict": verdict, "evidence": evidence}
        self._say(rung="L3")
        reports = try_flags(pair, kernels)
        verdict, evidence = judge_flags(*reports, ROUNDS)
        if verdict != "ok":
            return {**copied, "verdict": verdict, "evidence": evidence}
        sizes = ", ".join(dict.fromkeys(size_name(one.size) for one in tried))
        more = [
            f"{len(tried)} times {sizes} stored and loaded by kernels, all words right",
            f"{ROUNDS} rounds of flags, all seen and the words before them right",
        ]
        trip = reports[0].round_trip_us()
        return {
            **copied,
            "round_trip_us": None if trip is None else round(trip, 3),
            "evidence": [*copied["evidence"], *more],
        }

    def _kernels(self) -> tuple[Kernels, Kernels]:
        made = []
        for card in self._cards:
            card.use()
            made.append(Kernels(self._cuda))
        return made[0], made[1]


def _median(rates: Sequence[float]) -> float | None:
    return round(median(rates), 3) if rates else None


def _host_memory() -> int:
    """Bytes that this host can give without swapping."""
    for line in Path("/proc/meminfo").read_text().split("\n"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return sys.maxsize
