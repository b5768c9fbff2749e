"""python -m tests.unit.preflight.kernel_program SCENARIO JSON runs kernels and prints as JSON.

A process of its own for each, as the library reads its configuration once and may hang.
"""

from __future__ import annotations

import json
import os
import sys
import time
from ctypes import c_char
from dataclasses import asdict
from typing import Any, ClassVar

from rigops.hostside.p2p.cuda import NOT_READY, Cuda, CudaError
from rigops.hostside.p2p.kernels import Kernels, PtxError, Talk
from rigops.hostside.p2p.ptx import PTX
from rigops.hostside.p2p.verdict import POISON, poison
from rigops.hostside.p2p.words import Words, words_of

MAILBOX = 4096


class Card:
    patience_s: ClassVar[float] = 60  # then it hangs

    def __init__(self, cuda: Cuda, index: int, ptx: str) -> None:
        self.cuda = cuda
        self.context = cuda.handle("cuDevicePrimaryCtxRetain", index)
        self.use()
        self.stream = cuda.handle("cuStreamCreate", 0)
        self.kernels = Kernels(cuda, ptx)

    def use(self) -> None:
        self.cuda.do("cuCtxSetCurrent", self.context)

    def memory(self, size: int) -> int:
        self.use()
        return self.cuda.memory(size)

    def write(self, to: int, data: bytes) -> None:
        self.use()
        self.cuda.do("cuMemcpyHtoD_v2", to, data, len(data))

    def read(self, at: int, size: int) -> bytes:
        self.use()
        data = bytearray(size)
        self.cuda.do("cuMemcpyDtoH_v2", (c_char * size).from_buffer(data), at, size)
        return bytes(data)

    def wait(self) -> None:
        self.use()
        until = time.monotonic() + self.patience_s
        while (code := self.cuda.code("cuStreamQuery", self.stream)) == NOT_READY:
            if time.monotonic() > until:
                raise TimeoutError
        if code:
            raise CudaError("cuStreamQuery", code, self.cuda.name(code))


def cards(ptx: str, *, peers: bool = True) -> tuple[Card, Card]:
    cuda = Cuda(os.environ["LIBCUDA"])
    cuda.do("cuInit", 0)
    one, other = Card(cuda, 0, ptx), Card(cuda, 1, ptx)
    for own, peer in ((one, other), (other, one)) if peers else ():
        own.use()
        cuda.do("cuCtxEnablePeerAccess", peer.context, 0)
    return one, other


def store(ptx: str, count: int, guards: int, passes: int = 1, *, swap: bool = False) -> Any:
    """One card stores into memory of the other; what the owner, its kernel and the writer find."""
    one, other = cards(ptx)[:: -1 if swap else 1]
    guard = poison(4 * guards)
    size = 4 * count + 2 * len(guard)
    guarded = other.memory(size)
    words = words_of(0, 1, 0)
    for number in range(passes):
        words = words_of(0, 1, number)
        other.write(guarded, poison(size))
        one.use()
        one.kernels.store(guarded + len(guard), count, words, one.stream)
        one.wait()
    found = other.read(guarded, size)
    expected = guard + words.as_bytes(count) + guard
    wrong = next((k for k in range(size) if found[k] != expected[k]), None)
    looks = {}
    for name, card in (("owner", other), ("writer", one)):
        card.use()
        card.kernels.load(guarded, count, guards, words, card.stream)
        card.wait()
        looks[name] = asdict(card.kernels.loaded())
    return {"first_wrong_byte": wrong, **looks}


def load(
    ptx: str,
    count: int,
    guards: int,
    changed: tuple[tuple[int, int], ...] = (),
    *,
    own: bool = False,
    swap: bool = False,
) -> Any:
    """One card loads what the host gave to the other (or to itself), some words of it changed."""
    one, other = cards(ptx)[:: -1 if swap else 1]
    owner = one if own else other
    words = words_of(1, 0, 1)
    data = bytearray(poison(4 * guards) + words.as_bytes(count) + poison(4 * guards))
    for word, value in changed:
        at = 4 * (guards + word)
        data[at : at + 4] = value.to_bytes(4, "little")
    guarded = owner.memory(len(data))
    owner.write(guarded, bytes(data))
    one.use()
    one.kernels.load(guarded, count, guards, words, one.stream)
    one.wait()
    return asdict(one.kernels.loaded())


def talk(
    ptx: str,
    rounds: int,
    words: int,
    patience_s: float = 0.1,
    *,
    pull: bool = False,
    swap: bool = False,
    alone: bool = False,
) -> Any:
    """Flags and words between one card, which begins, and the other.

    `pull`: each polls the memory of the other instead of its own. `alone`: the other is silent.
    """
    one, other = cards(ptx)[:: -1 if swap else 1]
    boxes = one.memory(MAILBOX), other.memory(MAILBOX)
    for card, box in ((one, boxes[0]), (other, boxes[1])):
        card.use()
        card.cuda.do("cuMemsetD32_v2", box, POISON, MAILBOX // 4)
        card.kernels.clear_report()
    there = words_of(0, 1, 1)
    back = Words(there.step, words_of(1, 0, 1).start)
    own, far = boxes[::-1] if pull else boxes
    begins = Talk(own, far, rounds, patience_s, words, there, back, serves=True)
    answers = Talk(far, own, rounds, patience_s, words, back, there, serves=False)
    sides = ((one, begins), (other, answers))
    for card, side in sides[:1] if alone else sides:
        card.use()
        card.kernels.talk(side, card.stream)
    found = []
    for card, _ in sides:
        card.wait()
        talked = card.kernels.talked()
        found.append({**asdict(talked), "us": talked.round_trip_us()})
    return found


def beyond(ptx: str, what: str) -> Any:
    """A store to where none may go, and what the context answers from then on."""
    one, other = cards(ptx, peers=what != "peer")
    to = (one if what == "end" else other).memory(4096)
    one.use()
    one.kernels.store(to, 1025 if what == "end" else 1024, words_of(0, 1, 1), one.stream)
    try:
        one.wait()
    except CudaError as error:
        return [error.code, one.cuda.code("cuCtxSynchronize"), other_is_fine(other)]
    return [0, 0, True]


def other_is_fine(other: Card) -> bool:
    other.use()
    return other.cuda.code("cuCtxSynchronize") == 0


def compile_kernels(ptx: str) -> Any:
    try:
        cards(ptx)
    except PtxError as error:
        return [error.code, error.log]
    return [0, ""]


def main() -> None:
    name, options = sys.argv[1], json.loads(sys.stdin.read())
    options.setdefault("ptx", PTX)
    Card.patience_s = options.pop("hangs_after_s", Card.patience_s)
    try:
        answer = globals()[name](**options)
    except CudaError as error:
        answer = {"error": error.code}
    except TimeoutError:
        answer = {"error": "hang"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a hung stream would keep the normal way out waiting


if __name__ == "__main__":
    main()
