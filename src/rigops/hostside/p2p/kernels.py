"""Compiles the kernels for a GPU, launches them, and reads their reports."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.cuda import JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE, Cuda, CudaError
from rigops.hostside.p2p.ptx import LOAD, PING_PONG, PTX, STORE
from rigops.hostside.p2p.verdict import POISON

if TYPE_CHECKING:
    from rigops.hostside.p2p.words import Words

REPORT_BYTES: Final = 40
_BLOCKS: Final = 64
_THREADS: Final = 256
_NOTHING: Final = (1 << 64) - 1
_LOW: Final = (1 << 32) - 1
_REPORT: Final = struct.Struct("<5Q")

_LOG_BYTES: Final = 4096


class PtxError(CudaError):
    """The driver refuses the text of the kernels; `log` is what it says about it."""

    def __init__(self, code: int, name: str, log: str) -> None:
        super().__init__("cuModuleLoadDataEx", code, name)
        self.log = log


@dataclass(frozen=True)
class WrongWord:
    word: int  # its number
    expected: int
    seen: int


@dataclass(frozen=True)
class Loaded:
    looked: int  # words, guards included; anything but all of them is a broken kernel
    wrong: int
    first: WrongWord | None
    guards_wrong: int

    def is_right(self, words: int, guards: int) -> bool:
        return not self.wrong and not self.guards_wrong and self.looked == words + 2 * guards


@dataclass(frozen=True)
class Talked:
    """The report of one of the two kernels."""

    rounds: int  # that were finished
    wrong: int
    nanoseconds: int  # from the second round on
    first: WrongWord | None
    first_round: int = 0

    def round_trip_us(self) -> float | None:
        return self.nanoseconds / (self.rounds - 1) / 1000 if self.rounds > 1 else None


@dataclass(frozen=True)
class Talk:
    """One of two kernels that answer each other."""

    inbox: int
    outbox: int
    rounds: int
    patience_s: float  # for each flag
    words: int  # of data beside each flag
    sent: Words
    awaited: Words  # of the same step
    serves: bool  # whether this one begins


class Kernels:
    """The kernels of one GPU, whose context has to be the current one at every call."""

    def __init__(self, cuda: Cuda, ptx: str = PTX) -> None:
        self._cuda = cuda
        self._module = self._compile(ptx)
        self._functions = {
            name: cuda.handle("cuModuleGetFunction", self._module, name.encode())
            for name in (STORE, LOAD, PING_PONG)
        }
        self._report = cuda.memory(REPORT_BYTES)

    def _compile(self, ptx: str) -> int:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        module = ctypes.c_void_p()
        code = self._cuda.code(
            "cuModuleLoadDataEx", ctypes.byref(module), ptx.encode(), 2, options, values
        )
        if code:
            raise PtxError(code, self._cuda.name(code), log.value.decode("utf-8", "replace"))
        return module.value or 0

    def _launch(
        self,
        name: str,
        grid: tuple[int, int],
        stream: int,
        *parameters: ctypes.c_uint32 | ctypes.c_uint64,
    ) -> None:
        addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        function, (blocks, threads) = self._functions[name], grid
        self._cuda.do(
            "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, addresses, None
        )

    def store(self, to: int, count: int, words: Words, stream: int) -> None:
        self._launch(STORE, (_BLOCKS, _THREADS), stream, _u64(to), _u32(count), *_pattern_of(words))

    def load(self, guarded: int, count: int, guards: int, words: Words, stream: int) -> None:
        """`guarded`: where the guard words begin, `guards` of them before and behind the words."""
        self.clear_report()
        rest = (_u32(guards), _u32(POISON))
        self._launch(
            LOAD,
            (_BLOCKS, _THREADS),
            stream,
            _u64(guarded),
            _u64(self._report),
            _u32(count),
            *_pattern_of(words),
            *rest,
        )

    def talk(self, talk: Talk, stream: int) -> None:
        """Clear the reports of both before the first of the two is launched."""
        limits = (talk.rounds, talk.words)
        pattern = (talk.sent.step, talk.sent.start, talk.awaited.start)
        numbers = (*limits, *pattern, int(talk.serves))
        places = (talk.inbox, talk.outbox, self._report, round(talk.patience_s * 1e9))
        self._launch(PING_PONG, (1, 1), stream, *map(_u64, places), *map(_u32, numbers))

    def clear_report(self) -> None:
        data = _REPORT.pack(0, 0, _NOTHING, _NOTHING, 0)
        self._cuda.do("cuMemcpyHtoD_v2", self._report, data, len(data))

    def _read_report(self) -> tuple[int, ...]:
        data = ctypes.create_string_buffer(REPORT_BYTES)
        self._cuda.do("cuMemcpyDtoH_v2", data, self._report, REPORT_BYTES)
        return _REPORT.unpack(data.raw)

    def loaded(self) -> Loaded:
        """Call it when the stream of the kernel has ended."""
        looked, wrong, seen, expected, guards_wrong = self._read_report()
        first = WrongWord(seen >> 32, expected & _LOW, seen & _LOW) if wrong else None
        return Loaded(looked, wrong, first, guards_wrong)

    def talked(self) -> Talked:
        """Call it when the stream of the kernel has ended."""
        rounds, wrong, nanoseconds, place, values = self._read_report()
        if not wrong:
            return Talked(rounds, wrong, nanoseconds, None)
        first = WrongWord(place & _LOW, values >> 32, values & _LOW)
        return Talked(rounds, wrong, nanoseconds, first, place >> 32)


def _u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def _u32(value: int) -> ctypes.c_uint32:
    return ctypes.c_uint32(value)


def _pattern_of(words: Words) -> tuple[ctypes.c_uint32, ctypes.c_uint32]:
    return _u32(words.step), _u32(words.start)
