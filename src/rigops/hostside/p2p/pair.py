"""Two GPUs, and the memory of the second into which the first is to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.cuda import (
    MAP_FAILED,
    PEER_ENABLED,
    PEER_NOT_ENABLED,
    PEER_UNSUPPORTED,
    Cuda,
    CudaError,
)
from rigops.hostside.p2p.verdict import PAGE, POISON, poison

if TYPE_CHECKING:
    from rigops.hostside.p2p.card import Card
    from rigops.hostside.p2p.watched import Say

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
