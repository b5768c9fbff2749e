"""Patterns of 32-bit words that kernels make and check on a GPU, and this program on the host.

Another pair, direction or pass has another step, so that no run of words comes out of two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import shake_128

_MASK = (1 << 32) - 1
_LANE = 8  # bytes: a word and room for its carry
_FIRST = 1 << 10


@dataclass(frozen=True)
class Words:
    step: int  # odd
    start: int

    def word(self, k: int) -> int:
        x = (self.start + k * self.step) & _MASK
        return x ^ (x >> 16)

    def beginning_at(self, k: int) -> Words:
        return Words(self.step, (self.start + k * self.step) & _MASK)

    def as_bytes(self, count: int) -> bytes:
        """The first `count` words, little-endian, at the speed of long integers."""
        lanes = min(count, _FIRST)
        x = self._first(lanes)
        while lanes < count:
            x |= self._later(x, lanes) << (8 * _LANE * lanes)
            lanes *= 2
        x ^= (x >> 16) & _every_lane((1 << 16) - 1, lanes)
        wide = memoryview(x.to_bytes(_LANE * lanes, "little")).cast("I")
        return wide[: 2 * count : 2].tobytes()

    def _first(self, lanes: int) -> int:
        words = ((self.start + k * self.step) & _MASK for k in range(lanes))
        return int.from_bytes(b"".join(x.to_bytes(_LANE, "little") for x in words), "little")

    def _later(self, x: int, lanes: int) -> int:
        """Of the same number of words as `x`, those that follow it."""
        moved = x + _every_lane((lanes * self.step) & _MASK, lanes)
        return moved & _every_lane(_MASK, lanes)


def _every_lane(value: int, lanes: int) -> int:
    return int.from_bytes(value.to_bytes(_LANE, "little") * lanes, "little")


def words_of(source: int, target: int, number: int) -> Words:
    """Of pass `number` from GPU `source` to GPU `target`."""
    digest = shake_128(f"rigops words {source} {target} {number}".encode()).digest(8)
    step, start = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")
    return Words(step | 1, start)
