"""An all-reduce over every card with known sums, as others write it.

python -m tests.unit.lab.nccl_program [COUNT [init_all|threads]] prints what it saw as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, ClassVar

from tests.unit.lab.cuda_program.api import alloc, call, code, contexts, get, read, write

INT32, SUM = 2, 0


class UniqueId(ctypes.Structure):
    _fields_: ClassVar[Any] = [("internal", ctypes.c_char * 128)]


nccl = ctypes.CDLL(os.environ["LIBNCCL"])
nccl.ncclGetErrorString.restype = c_char_p
nccl.ncclCommInitRank.argtypes = [POINTER(c_void_p), c_int, UniqueId, c_int]
nccl.ncclCommInitAll.argtypes = [POINTER(c_void_p), c_int, POINTER(c_int)]
nccl.ncclAllReduce.argtypes = [c_uint64, c_uint64, c_size_t, c_int, c_int, c_void_p, c_void_p]
nccl.ncclCommDestroy.argtypes = [c_void_p]
nccl.ncclCommGetAsyncError.argtypes = [c_void_p, POINTER(c_int)]


def check(result: int) -> None:
    if result:
        raise SystemExit(nccl.ncclGetErrorString(result).decode())


class Rank:
    def __init__(self, number: int, context: int, count: int) -> None:
        self.number, self.context, self.count = number, context, count
        self.send, self.receive = alloc(context, 4 * count), alloc(context, 4 * count)
        write(context, self.send, struct.pack("<i", 10**number) * count)
        write(context, self.receive, b"\xee" * 4 * count)
        self.stream = get(c_void_p, "cuStreamCreate", 1)
        self.comm = c_void_p()

    def all_reduce(self) -> None:
        arguments = (self.send, self.receive, self.count, INT32, SUM, self.comm, self.stream)
        check(nccl.ncclAllReduce(*arguments))

    def whole_life(self, ranks: int, unique: UniqueId) -> None:
        call("cuCtxSetCurrent", self.context)
        check(nccl.ncclCommInitRank(byref(self.comm), ranks, unique, self.number))
        self.all_reduce()

    def sums(self) -> list[int]:
        call("cuCtxSetCurrent", self.context)
        call("cuStreamSynchronize", self.stream)
        got = read(self.context, self.receive, 4 * self.count)
        return sorted(set(struct.unpack(f"<{self.count}i", got)))


def by_threads(ranks: list[Rank]) -> None:
    unique = UniqueId()
    check(nccl.ncclGetUniqueId(byref(unique)))
    threads = [threading.Thread(target=r.whole_life, args=(len(ranks), unique)) for r in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_group(ranks: list[Rank]) -> None:
    comms = (c_void_p * len(ranks))()
    check(nccl.ncclCommInitAll(comms, len(ranks), None))
    check(nccl.ncclGroupStart())
    for rank, comm in zip(ranks, comms, strict=True):
        rank.comm = c_void_p(comm)
        rank.all_reduce()
    check(nccl.ncclGroupEnd())


def main(count: str = "1024", how: str = "init_all") -> Any:
    ranks = [Rank(number, context, int(count)) for number, context in enumerate(contexts())]
    (by_threads if how == "threads" else by_group)(ranks)
    if any(code("cuStreamQuery", rank.stream) == 600 for rank in ranks):
        return [code("cuStreamQuery", rank.stream) for rank in ranks]
    seen = [rank.sums() for rank in ranks]
    error = c_int(-1)
    for rank in ranks:
        check(nccl.ncclCommGetAsyncError(rank.comm, byref(error)))
        check(nccl.ncclCommDestroy(rank.comm))
    return {"sums": seen, "error": error.value}


def version() -> Any:
    found = c_int()
    check(nccl.ncclGetVersion(byref(found)))
    return [found.value, nccl.ncclGetErrorString(0).decode(), nccl.ncclGetErrorString(1).decode()]


if __name__ == "__main__":
    seen = version() if sys.argv[1:] == ["version"] else main(*sys.argv[1:])
    print(json.dumps(seen), flush=True)  # noqa: T201 - its output
