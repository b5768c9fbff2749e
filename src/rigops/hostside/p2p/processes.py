"""Rung L5: memory of another process, as NCCL and vLLM use it, with kernels of both GPUs.

One process per GPU. The process of the owner is a fork, made before this one loads the driver. It
reads questions from one pipe and writes answers to another.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, Final

from rigops.hostside.p2p.accesses import Accessed, Accessor, judge_accesses
from rigops.hostside.p2p.card import GUARD, Card, Gpu
from rigops.hostside.p2p.cuda import Cuda, CudaError, NoLibraryError
from rigops.hostside.p2p.flags import judge_flags, side_of
from rigops.hostside.p2p.kernels import Kernels, Loaded, Talked, WrongWord
from rigops.hostside.p2p.verdict import POISON, size_name
from rigops.hostside.p2p.words import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.hostside.p2p.watched import Say

_BYTES: Final = 1 << 20
_COUNT: Final = _BYTES // 4
_ROUNDS_BETWEEN: Final = 200
_ALL: Final = _BYTES + 2 * GUARD


def processes_job(source: Gpu, target: Gpu) -> Callable[[Say], None]:
    """Make the job of a watched child, which is the process of the source."""

    def job(say: Say) -> None:
        owner = _Owner(target)
        say(rung="L5", step="opening both GPUs, each in its own process")
        try:
            verdict, evidence = _Try(source, target, owner, say).answer()
        except (CudaError, NoLibraryError, _OwnerError) as error:
            verdict, evidence = "error", [str(error)]
        say(
            step="ending the process of the owner",
            answer={"verdict": verdict, "evidence": evidence},
        )
        owner.end()

    return job


class _OwnerError(Exception):
    """The process of the owner could not do what it was asked to."""


class _Owner:
    """The other process, as this one sees it."""

    def __init__(self, target: Gpu) -> None:
        questions, asking = os.pipe()
        answering, answers = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(asking)
            os.close(answering)
            _be_owner(target, questions, answers)
        os.close(questions)
        os.close(answers)
        self._asking = os.fdopen(asking, "w", encoding="utf-8")
        self._answering = os.fdopen(answering, encoding="utf-8")

    def ask(self, what: str, **how: object) -> Any:  # noqa: ANN401 - each question has its own answer
        self.begin(what, **how)
        return self.answer()

    def begin(self, what: str, **how: object) -> None:
        _write_line(self._asking, {"what": what, "how": how})

    def answer(self) -> Any:  # noqa: ANN401 - what the other process said
        line = self._answering.readline()
        if not line:
            raise _OwnerError("the process of the owner ended")
        found = json.loads(line)
        if "error" in found:
            raise _OwnerError(f"the owner's process: {found['error']}")
        return found["answer"]

    def end(self) -> None:
        self._asking.close()
        os.waitpid(self._process, 0)


def _be_owner(target: Gpu, questions: int, answers: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)  # or the watching process would wait for this one too
    os.dup2(nothing, 2)
    asked, answering = os.fdopen(questions, encoding="utf-8"), os.fdopen(answers, "w")
    try:
        memory = _Memory(target)
        for line in asked:
            question = json.loads(line)
            answer = getattr(memory, question["what"])(**question["how"])
            _write_line(answering, {"answer": answer})
    except BaseException as error:  # noqa: BLE001 - a fork must never go on as a second child
        _write_line(answering, {"error": str(error)})
    finally:
        os._exit(0)


def _write_line(to: IO[str], words: object) -> None:
    to.write(json.dumps(words) + "\n")
    to.flush()


def _say_nothing(**_: object) -> None:
    """The owner's process has lost its reader."""


class _Memory:
    """The work of the owner's process; each method is a question."""

    def __init__(self, target: Gpu) -> None:
        self._cuda = Cuda()
        self._cuda.do("cuInit", 0)
        self._card = Card(self._cuda, target)
        self._kernels = Kernels(self._cuda)
        self._guarded = self._card.memory(_ALL)

    def handle(self) -> str:
        self._card.use()
        return b64encode(self._cuda.handle_of(self._guarded)).decode()

    def poison(self) -> None:
        self._card.fill(self._guarded, POISON, _ALL)

    def fill(self, step: int, start: int) -> None:
        self.poison()
        self._card.write(self._guarded + GUARD, Words(step, start).as_bytes(_COUNT))

    def look(self, step: int, start: int) -> dict[str, object]:
        words = Words(step, start)
        found = self._card.read(self._guarded + GUARD, _BYTES)
        loaded = Accessor(self._card, self._kernels, _say_nothing).load(
            self._guarded, _COUNT, words
        )
        return {"arrived": found == words.as_bytes(_COUNT), "loaded": asdict(loaded)}

    def talk(self, step: int, start: int, rounds: int) -> dict[str, object]:
        self._card.use()
        self._kernels.clear_report()
        side = side_of(self._guarded + GUARD, Words(step, start), rounds, asks=False)
        self._kernels.talk(side, self._card.stream)
        self._card.wait(_say_nothing)
        return asdict(self._kernels.talked())


class _Try:
    def __init__(self, source: Gpu, target: Gpu, owner: _Owner, say: Say) -> None:
        self._say = say
        self._owner = owner
        self._pair = (source.index, target.index)
        self._passes = 0
        handle = b64decode(owner.ask("handle"))
        self._cuda = Cuda()
        self._cuda.do("cuInit", 0)
        self._card = Card(self._cuda, source)
        self._kernels = Kernels(self._cuda)
        say(step="opening the memory of the other process", ready=True)
        self._guarded = self._cuda.open_handle(handle)

    def answer(self) -> tuple[str, list[str]]:
        tried = self._access()
        verdict, evidence = judge_accesses([tried])
        if verdict == "ok":
            verdict, evidence = judge_flags(*self._flags(), _ROUNDS_BETWEEN)
        if verdict != "ok":
            return verdict, ["between processes", *evidence]
        return "ok", [
            f"{size_name(_BYTES)} and {_ROUNDS_BETWEEN} rounds of flags right between processes"
        ]

    def _next_words(self) -> Words:
        self._passes += 1
        return words_of(*self._pair, self._passes)

    def _access(self) -> Accessed:
        words = self._next_words()
        self._say(step=f"stores of {size_name(_BYTES)} into another process")
        self._owner.ask("poison")
        self._card.use()
        self._kernels.store(self._guarded + GUARD, _COUNT, words, self._card.stream)
        self._card.wait(self._say)
        stored = self._owner.ask("look", **asdict(words))
        owner = _loaded(stored["loaded"])
        writer = None if stored["arrived"] and not owner.wrong else self._load(words)
        words = self._next_words()
        self._say(step=f"loads of {size_name(_BYTES)} from another process")
        self._owner.ask("fill", **asdict(words))
        far = self._load(words)
        own = _loaded(self._owner.ask("look", **asdict(words))["loaded"])
        return Accessed(_BYTES, stored["arrived"], owner, writer, own, far)

    def _load(self, words: Words) -> Loaded:
        return Accessor(self._card, self._kernels, self._say).load(self._guarded, _COUNT, words)

    def _flags(self) -> tuple[Talked, Talked]:
        self._talk(0)
        return self._talk(_ROUNDS_BETWEEN)

    def _talk(self, rounds: int) -> tuple[Talked, Talked]:
        words = self._next_words()
        self._say(step=f"{rounds} rounds of flags between processes")
        self._owner.ask("poison")
        self._card.use()
        self._kernels.clear_report()
        self._owner.begin("talk", **asdict(words), rounds=rounds)
        side = side_of(self._guarded + GUARD, words, rounds, asks=True)
        self._kernels.talk(side, self._card.stream)
        self._card.wait(self._say)
        asking = self._kernels.talked()
        return asking, _talked(self._owner.answer())


def _loaded(found: dict[str, Any]) -> Loaded:
    return Loaded(**{**found, "first": _wrong_word(found["first"])})


def _talked(found: dict[str, Any]) -> Talked:
    return Talked(**{**found, "first": _wrong_word(found["first"])})


def _wrong_word(found: dict[str, Any] | None) -> WrongWord | None:
    return None if found is None else WrongWord(**found)
