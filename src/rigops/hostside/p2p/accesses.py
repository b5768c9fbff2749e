"""Rung L2: kernels of one GPU store into the memory of another and load from it.

Its owner looks at what was stored, by a copy to the host and by a kernel of its own. Making large
patterns takes the host seconds: of the largest size, kernels look at all, the host at both ends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.card import GUARD
from rigops.hostside.p2p.verdict import POISON, size_name
from rigops.hostside.p2p.words import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rigops.hostside.p2p.card import Card, Pair
    from rigops.hostside.p2p.kernels import Kernels, Loaded
    from rigops.hostside.p2p.watched import Say

WHOLE: Final = 4 << 20  # the host looks at all of it
_SMALLER: Final = 64 << 10
_KERNELS: Final = 5  # of a pass
_MOST_S: Final = 3.0  # for the kernels of the largest size
_GUARD_WORDS: Final = GUARD // 4


@dataclass(frozen=True)
class Accessed:
    """One pass. `owner` and `writer`: what each loads of the stored words, None if not asked."""

    size: int
    arrived: bool  # as the owner copies it, or both ends of it, to the host
    owner: Loaded
    writer: Loaded | None
    own: Loaded  # words of the host in the owner's memory, as the owner loads them
    far: Loaded  # the same, as the other GPU loads them
    seconds: float = 0.0  # of the kernel that stored

    @property
    def words(self) -> int:
        return self.size // 4

    def is_right(self, loaded: Loaded) -> bool:
        return loaded.is_right(self.words, _GUARD_WORDS)

    @property
    def stored_right(self) -> bool:
        return self.arrived and self.is_right(self.owner)

    @property
    def right(self) -> bool:
        return self.stored_right and self.is_right(self.own) and self.is_right(self.far)

    @property
    def is_mirror(self) -> bool:
        """The writer sees all of its words, and the owner none of them."""
        seen = self.writer is not None and self.is_right(self.writer)
        first = self.owner.first
        nothing = self.owner.wrong == self.words and first is not None and first.seen == POISON
        return seen and nothing


def try_accesses(
    pair: Pair,
    kernels: tuple[Kernels, Kernels],
    largest: int,
    passes: int,
    has_time: Callable[[], bool],
) -> list[Accessed]:
    """From small to large, until a size goes wrong. `kernels`: of the source and of the target."""
    tried: list[Accessed] = []
    for size in sorted({min(largest, _SMALLER), min(largest, WHOLE)}):
        for _ in range(passes):
            if tried and not has_time():
                return tried
            tried.append(_try(pair, kernels, size))
        if not all(one.right for one in tried):
            return tried
    seconds = _KERNELS * tried[-1].seconds * largest / WHOLE
    if largest > WHOLE and seconds <= _MOST_S and has_time():
        tried.append(_try(pair, kernels, largest))
    return tried


def _try(pair: Pair, kernels: tuple[Kernels, Kernels], size: int) -> Accessed:
    source = Accessor(pair.source, kernels[0], pair.say)
    target = Accessor(pair.target, kernels[1], pair.say)
    at, count = pair.guarded, size // 4
    words = _next_words(pair)
    pair.say(step=f"stores of {size_name(size)}")
    pair.poison(size)
    seconds = source.store(pair.to, count, words)
    arrived = _arrived(pair, size, words)
    owner = target.load(at, count, words)
    right = arrived and owner.is_right(count, _GUARD_WORDS)
    writer = None if right else source.load(at, count, words)

    words = _next_words(pair)
    pair.say(step=f"loads of {size_name(size)}")
    pair.poison(size)
    if size <= WHOLE:
        pair.target.write(pair.to, words.as_bytes(count))
    else:
        target.store(pair.to, count, words)
    far = source.load(at, count, words)
    own = target.load(at, count, words)
    return Accessed(size, arrived, owner, writer, own, far, seconds)


def _arrived(pair: Pair, size: int, words: Words) -> bool:
    spans = [(0, size)] if size <= WHOLE else [(0, WHOLE), (size - WHOLE, WHOLE)]
    return all(
        pair.target.read(pair.to + at, length) == words.beginning_at(at // 4).as_bytes(length // 4)
        for at, length in spans
    )


def _next_words(pair: Pair) -> Words:
    return words_of(pair.source.index, pair.target.index, pair.next_pass())


@dataclass(frozen=True)
class Accessor:
    """A GPU that stores words and looks at them, wherever they are."""

    card: Card
    kernels: Kernels
    say: Say

    def store(self, to: int, count: int, words: Words) -> float:
        """How long that took."""
        self.card.use()
        began = time.monotonic()
        self.kernels.store(to, count, words, self.card.stream)
        self.card.wait(self.say)
        return time.monotonic() - began

    def load(self, guarded: int, count: int, words: Words) -> Loaded:
        """`guarded`: where the guard begins that is before the words."""
        self.card.use()
        self.kernels.load(guarded, count, _GUARD_WORDS, words, self.card.stream)
        self.card.wait(self.say)
        return self.kernels.loaded()


def judge_accesses(tried: Sequence[Accessed]) -> tuple[str, list[str]]:
    bad = [one for one in tried if not one.right]
    evidence = []
    if bad:
        first = bad[0]
        alike = [one for one in tried if one.size == first.size]
        evidence += [f"{size_name(first.size)}: {len(bad)} of {len(alike)} passes wrong"]
        evidence += _where_wrong(first)
    if any(not one.is_right(one.own) for one in bad):
        return "hardware", evidence
    sizes_right = {one.size for one in tried if one.right}
    if any(one.size in sizes_right for one in bad):
        return "unstable", evidence
    stores = [one for one in bad if not one.stored_right]
    if stores and all(one.is_mirror for one in stores):
        mirror = "the writer loads its own words, the owner does not have them"
        return "mirror", [mirror, *evidence]
    return ("wrong_data" if bad else "ok"), evidence


def _where_wrong(one: Accessed) -> Iterator[str]:
    if not one.is_right(one.owner):
        yield f"stores, as the owner loads them: {_count_wrong(one.owner, one.words)}"
    elif not one.arrived:
        yield "stores: the owner's kernel loads what a copy to the host does not bring"
    if not one.is_right(one.far):
        yield f"loads: {_count_wrong(one.far, one.words)}"
    if not one.is_right(one.own):
        yield f"the owner's loads of its own memory: {_count_wrong(one.own, one.words)}"


def _count_wrong(loaded: Loaded, count: int) -> str:
    if loaded.first is not None:
        first = loaded.first
        what = " (nothing arrived)" if first.seen == POISON else ""
        return (
            f"{loaded.wrong} of {count} words wrong, the first is word {first.word}: "
            f"{first.seen:#010x} instead of {first.expected:#010x}{what}"
        )
    if loaded.guards_wrong:
        return f"{loaded.guards_wrong} words beside them were overwritten"
    return f"the kernel looked at {loaded.looked} words of {count + 2 * _GUARD_WORDS}"
