"""An all-reduce by NCCL over all cards, with exact sums: with P2P, and without as a control.

Each arm is a child of its own, because NCCL reads its environment once. A failure with P2P
only is the fault of P2P; one without it as well is not.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.card import GUARD, Card, Gpu
from rigops.hostside.p2p.cuda import DEVICE_UNAVAILABLE, NO_MEMORY, Cuda, CudaError, NoLibraryError
from rigops.hostside.p2p.nccl import (
    SONAME,
    SUM,
    UINT32,
    Nccl,
    NcclError,
    candidates,
    own_names,
    remove_new,
    writers,
)
from rigops.hostside.p2p.verdict import FAILED, NOT_PROVEN, POISON, PROVEN, pattern, size_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rigops.hostside.p2p.answers import ArmAnswer, CollectivesAnswer
    from rigops.hostside.p2p.watched import Ended, Job, Say

REDUCED: Final = (4 << 10, 1 << 20, 16 << 20)  # bytes of each card
_ROUNDS_OF_EACH: Final = 3
_TIMED: Final = 5
_IN_USE: Final = frozenset((NO_MEMORY, DEVICE_UNAVAILABLE))
_MOST_FAILURES: Final = 4

# Whatever a login shell or a file of NCCL's says must not decide what is tested.
_ENVIRONMENT: Final[Mapping[bool, Mapping[str, str]]] = {
    True: {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"},
    False: {"NCCL_P2P_DISABLE": "1"},
}
_DEBUG: Final[Mapping[str, str]] = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/dev/stderr"}
_WITH: Final = {True: "with P2P", False: "without P2P (NCCL_P2P_DISABLE=1)"}


def find_library(say: Say) -> None:
    """Job of a watched child: the first that may be loaded, loads, and answers its version."""
    say(step=f"looking for {SONAME}", ready=True)
    failures = []
    for path in candidates(Path(os.path.expanduser("~"))):  # noqa: PTH111 - it never raises
        say(step=f"loading {path}")
        try:
            why = writers(path) if os.geteuid() == 0 else ""
            if not why:
                version = Nccl(str(path)).version()
                say(answer={"library": str(path), "version": version})
                return
            failures.append(f"{path} is not loaded as root: {why}")
        except (OSError, AttributeError, NcclError) as error:
            failures.append(f"{path} cannot be used: {error}")
    say(answer={"failures": failures})


# ---- one arm


@dataclass(frozen=True)
class Arm:
    library: str
    gpus: Sequence[Gpu]
    p2p: bool

    def job(self, say: Say) -> None:
        """Job of a watched child. It answers what was wrong, and the speed."""
        for name in [name for name in os.environ if name.startswith(("NCCL_P2P_", "NCCL_DEBUG"))]:
            del os.environ[name]
        os.environ.update({**_ENVIRONMENT[self.p2p], **_DEBUG})
        say(step=f"all-reduce {_WITH[self.p2p]}: cuInit")
        try:
            cuda = Cuda()
            cuda.do("cuInit", 0)
            answer = _AllReduce(self, cuda, say).answer()
        except (CudaError, NcclError, NoLibraryError, OSError) as error:
            busy = isinstance(error, CudaError) and error.code in _IN_USE
            answer = {"error": str(error), "busy": busy}
        say(answer=answer)
        # Communicators go with the process: their own clean-up could hang.


@dataclass(frozen=True)
class _Rank:
    number: int
    card: Card
    address: str
    origin: int
    guarded: int
    communicator: int


class _AllReduce:
    def __init__(self, arm: Arm, cuda: Cuda, say: Say) -> None:
        self._name = f"all-reduce {_WITH[arm.p2p]}"
        self._say = say
        say(step=f"{self._name}: opening all GPUs")
        cards = [Card(cuda, gpu) for gpu in arm.gpus]
        say(step=f"{self._name}: ncclCommInitAll")
        self._nccl = Nccl(arm.library)
        made = self._nccl.communicators([card.device for card in cards])
        say(step=f"{self._name}: allocating memory", ready=True)
        largest = REDUCED[-1]
        self._ranks = [
            _Rank(
                number,
                card,
                gpu.address,
                card.memory(largest),
                card.memory(largest + 2 * GUARD),
                communicator,
            )
            for number, (gpu, card, communicator) in enumerate(zip(arm.gpus, cards, made))  # noqa: B905 - Python 3.8
        ]
        self._rounds = 0

    def answer(self) -> ArmAnswer:
        for size in REDUCED:
            for turn in range(1, _ROUNDS_OF_EACH + 1):
                wrong = self._round(size, f"round {turn} of {_ROUNDS_OF_EACH}")
                if wrong:
                    return {"wrong": wrong}
        return {"wrong": [], "gb_per_s": self._rate(REDUCED[-1]), "rounds": self._rounds}

    def _round(self, size: int, turn: str) -> list[str]:
        self._rounds += 1
        what = f"{self._name} of {size_name(size)}, {turn}"
        self._say(step=what)
        sent = [pattern(rank.number, rank.number, self._rounds, size) for rank in self._ranks]
        for rank, data in zip(self._ranks, sent):  # noqa: B905 - Python 3.8
            rank.card.write(rank.origin, data)
            rank.card.fill(rank.guarded, POISON, size + 2 * GUARD)
        self._begin(size)
        self._wait()
        guard = POISON.to_bytes(4, "little") * (GUARD // 4)
        expected = sum_of(sent)
        found = []
        for rank in self._ranks:
            received = bytes(rank.card.read(rank.guarded, size + 2 * GUARD))
            if received[GUARD:-GUARD] != expected:
                words = _describe_wrong(received[GUARD:-GUARD], expected)
                found.append(f"{what}: {rank.address} has {words}")
            elif received[:GUARD] != guard or received[-GUARD:] != guard:
                found.append(f"{what}: {rank.address} has bytes overwritten beside the sums")
        return found

    def _begin(self, size: int) -> None:
        self._nccl.do("ncclGroupStart")
        for rank in self._ranks:
            rank.card.use()
            self._nccl.do(
                "ncclAllReduce",
                rank.origin, rank.guarded + GUARD, size // 4, UINT32, SUM,
                rank.communicator, rank.card.stream,
            )  # fmt: skip
        self._nccl.do("ncclGroupEnd")

    def _wait(self) -> None:
        for rank in self._ranks:
            rank.card.wait(self._say)
        for rank in self._ranks:
            self._nccl.check(rank.communicator)

    def _rate(self, size: int) -> float | None:
        """GB/s of each link, which nccl-tests call the bus bandwidth."""
        self._say(step=f"{self._name}: timing")
        for rank in self._ranks:
            rank.card.mark(rank.card.start)
        for _ in range(_TIMED):
            self._begin(size)
        for rank in self._ranks:
            rank.card.mark(rank.card.end)
        self._wait()
        milliseconds = max(rank.card.milliseconds() for rank in self._ranks)
        share = 2 * (len(self._ranks) - 1) / len(self._ranks)
        return round(_TIMED * size * share / milliseconds / 1e6, 3) if milliseconds else None


def sum_of(buffers: Sequence[bytes]) -> bytes:
    """Word by word modulo 2 ** 32, at the speed of long integers."""
    size = len(buffers[0])
    every_other = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * (size // 8), "little")
    numbers = [int.from_bytes(one, "little") for one in buffers]
    even = sum(number & every_other for number in numbers) & every_other
    odd = sum((number >> 32) & every_other for number in numbers) & every_other
    return (even | odd << 32).to_bytes(size, "little")


def _describe_wrong(received: bytes, expected: bytes) -> str:
    one, other = memoryview(received).cast("I"), memoryview(expected).cast("I")
    bad = [at for at in range(len(one)) if one[at] != other[at]]
    at = bad[0]
    first = f"word {at} is {one[at]:#010x} instead of {other[at]:#010x}"
    return f"{len(bad)} of {len(one)} words wrong: {first}"


# ---- both arms


@dataclass(frozen=True)
class ArmFound:
    verdict: str  # ok, wrong_data, hang, error or skipped
    evidence: tuple[str, ...]
    gb_per_s: float | None = None


_BAD: Final = ("wrong_data", "hang")


def judge_arms(control: ArmFound, p2p: ArmFound) -> tuple[str, str]:
    """Give the verdict, and for a failure its cause: "p2p", "other", or "" where that is open."""
    if control.verdict in _BAD:
        return FAILED, "other"
    if p2p.verdict in _BAD:
        return FAILED, "p2p" if control.verdict == "ok" else ""
    if control.verdict != "ok":
        return NOT_PROVEN, ""
    if p2p.verdict == "error":
        return FAILED, "p2p"
    return (PROVEN if p2p.verdict == "ok" else NOT_PROVEN), ""


def find_nccl(find: Callable[[Job], Ended]) -> CollectivesAnswer:
    """The library and its version, of which nothing is proven; else why there is none."""
    ended = find(find_library)
    found = ended.last("answer") or {"failures": [_how(ended)]}
    if "library" not in found:
        return _not_proven(*(found["failures"][:_MOST_FAILURES] or [f"no {SONAME} was found"]))
    return {**_not_proven(), **found}


def _not_proven(*evidence: str) -> CollectivesAnswer:
    return {
        "verdict": NOT_PROVEN,
        "cause": "",
        "evidence": list(evidence),
        "library": "",
        "version": "",
        "p2p_gb_per_s": None,
        "control_gb_per_s": None,
    }


def prove_collectives(
    gpus: Sequence[Gpu],
    *,
    find: Callable[[Job], Ended],
    try_arm: Callable[[Job], Ended],
    why_not: Callable[[], str],
    why_not_p2p: Callable[[], str],
) -> CollectivesAnswer:
    """`find` and `try_arm` run a job in a watched child.

    `why_not` and `why_not_p2p` are asked before each; empty: go on. The arm without P2P is tried
    after a hang of pairs too, to know whether that works there.
    """
    why = why_not()
    if why:
        return _not_proven(f"not tried: {why}")
    found = find_nccl(find)
    if not found["library"]:
        return found
    arms = {}
    is_clean = not why_not_p2p()  # or a failure of the control may be what pairs left behind
    for is_p2p in (False, True):  # the control first: it can do least harm
        why = why_not_p2p() if is_p2p else why_not()
        if why:
            evidence = (f"all-reduce {_WITH[is_p2p]}: not tried: {why}",)
            arms[is_p2p] = ArmFound("skipped", evidence)
        else:
            arm = Arm(found["library"], gpus, is_p2p)
            names = own_names()
            arms[is_p2p] = judge_arm(try_arm(arm.job), is_p2p=is_p2p)
            remove_new(names)
    control, p2p = arms[False], arms[True]
    verdict, cause = judge_arms(control, p2p)
    return {
        **found,
        "verdict": verdict,
        "cause": cause if is_clean else "",
        "evidence": [*control.evidence, *p2p.evidence],
        "p2p_gb_per_s": p2p.gb_per_s,
        "control_gb_per_s": control.gb_per_s,
    }


def judge_arm(ended: Ended, *, is_p2p: bool) -> ArmFound:
    answer = ended.last("answer")
    name = f"all-reduce {_WITH[is_p2p]}"
    if ended.overdue:
        late = f"{name}: its process hung at the end" if answer else _how(ended)
        return ArmFound("hang", (late, *ended.evidence, *_warnings(ended.text)))
    if answer is None:
        return ArmFound("error", (_how(ended), *_warnings(ended.text)))
    if "error" in answer:
        verdict = "skipped" if answer["busy"] else "error"
        why = ("the GPUs are in use by others, or their memory is",) if answer["busy"] else ()
        said = f"{ended.step}: {answer['error']}"
        return ArmFound(verdict, (said, *why, *_warnings(ended.text)))
    if answer["wrong"]:
        return ArmFound("wrong_data", tuple(answer["wrong"][:_MOST_FAILURES]))
    sizes = ", ".join(map(size_name, REDUCED))
    over = ", ".join(sorted(set(re.findall(r" via (P2P|SHM|NET)\b", ended.text))))
    by = f", by NCCL over {over}" if over else ""
    right = f"{name}: {answer['rounds']} times {sizes}, all sums exact{by}"
    return ArmFound("ok", (right,), answer["gb_per_s"])


def _warnings(text: str) -> list[str]:
    """What NCCL itself says of a failure."""
    found = dict.fromkeys(re.findall(r"NCCL WARN (.+)", text))
    return [f"NCCL: {line.strip()}" for line in found][:_MOST_FAILURES]


def _how(ended: Ended) -> str:
    how = "did not end in time" if ended.overdue else ended.how or "ended without an answer"
    return f"{ended.step}: {how}"
