"""What the program can be asked to do. Each returns what it saw."""

from __future__ import annotations

import os
import random
import sys
import time
from ctypes import (
    addressof,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_uint64,
    c_void_p,
    create_string_buffer,
)
from typing import TYPE_CHECKING, Any

from tests.unit.lab.cuda_program.api import (
    NOT_READY,
    CudaError,
    IpcHandle,
    alloc,
    call,
    code,
    contexts,
    enable,
    get,
    read,
    timed,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20


def _pattern(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 - test data


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _listen() -> str:
    return sys.stdin.readline().strip()


def init() -> Any:
    return code("cuInit", 0)


def devices() -> Any:
    call("cuInit", 0)
    found = []
    for device in range(get(c_int, "cuDeviceGetCount")):
        name, address = create_string_buffer(64), create_string_buffer(16)
        call("cuDeviceGetName", name, 64, device)
        call("cuDeviceGetPCIBusId", address, 16, device)
        major, minor = (get(c_int, "cuDeviceGetAttribute", which, device) for which in (75, 76))
        total = get(c_size_t, "cuDeviceTotalMem_v2", device)
        found.append([name.value.decode(), address.value.decode(), f"{major}.{minor}", total])
    return found


def _error_text(what: str, error: int) -> str:
    text = c_char_p()
    call(f"cuGetError{what}", error, byref(text))
    return (text.value or b"").decode()


def version_and_errors() -> Any:
    texts = {}
    for error in (0, 217, 600, 704, 803, 999):
        texts[error] = [_error_text("Name", error), _error_text("String", error)]
    return [
        get(c_int, "cuDriverGetVersion"),
        texts,
        code("cuGetErrorName", 12345, byref(c_char_p())),
    ]


def newest_address() -> Any:
    call("cuInit", 0)
    found, status = c_void_p(), c_int()
    call("cuGetProcAddress_v2", b"cuMemAlloc", byref(found), 12000, 0, byref(status))
    known = [bool(found.value), status.value]
    call("cuGetProcAddress_v2", b"cuNothing", byref(found), 12000, 0, byref(status))
    return [known, [bool(found.value), status.value]]


def before_init_and_after_fork() -> Any:
    before = code("cuDeviceGetCount", byref(c_int()))
    contexts()
    child = os.fork()
    if not child:
        os._exit(code("cuCtxSynchronize"))
    return [before, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def grants() -> Any:
    call("cuInit", 0)
    both = [(0, 1), (1, 0)]
    return [
        [get(c_int, "cuDeviceCanAccessPeer", *pair) for pair in both],
        [get(c_int, "cuDeviceGetP2PAttribute", 2, *pair) for pair in both],
        [get(c_int, "cuDeviceGetP2PAttribute", 3, *pair) for pair in both],
    ]


def peer_access() -> Any:
    first, second = contexts()
    seen = [enable(first, second), enable(first, second), enable(second, first)]
    call("cuCtxSetCurrent", first)
    seen += [code("cuCtxDisablePeerAccess", second) for _ in range(2)]
    return seen


def many_peers() -> Any:
    own, *others = contexts()
    return [enable(own, other) for other in others]


def copy(size: str, function: str = "dtod") -> Any:
    """One copy from card 0 to card 1, with access both ways where it is granted.

    Returns what the owner has, what the writer reads back by another copy, and whether the owner's
    memory around it stayed as it was.
    """
    length, guard = int(size), 4096
    first, second = contexts()
    enabled = [enable(first, second), enable(second, first)]
    data, poison = _pattern(1, length), b"\xee" * (length + 2 * guard)
    source, back = alloc(first, length), alloc(first, length)
    target = alloc(second, len(poison))
    write(first, source, data)
    write(second, target, poison)
    call("cuCtxSetCurrent", first)
    if function == "dtod":
        call("cuMemcpyDtoD_v2", target + guard, source, length)
    else:
        call("cuMemcpyPeer", target + guard, second, source, first, length)
    call("cuMemcpyDtoD_v2", back, target + guard, length)
    call("cuCtxSynchronize")
    owned = read(second, target, len(poison))
    got = owned[guard:-guard]
    wrong = next((i for i in range(length) if got[i] != data[i]), None)
    return {
        "enabled": enabled,
        "owner": "right" if wrong is None else "old" if got == b"\xee" * length else "other",
        "first_wrong": wrong,
        "round_trip": read(first, back, length) == data,
        "guards": {owned[:guard], owned[-guard:]} == {b"\xee" * guard},
    }


def successive_copies() -> Any:
    """What the owner finds after each of three copies to one place: zeros, or which pattern."""
    first, second = contexts()
    enable(first, second)
    size = 128 * 1024
    source, target = alloc(first, size), alloc(second, size)
    known = {bytes(size): "zeros", **{_pattern(n, size): f"pattern {n}" for n in (1, 2, 3)}}
    seen = []
    for number in (1, 2, 3):
        write(first, source, _pattern(number, size))
        call("cuMemcpyDtoD_v2", target, source, size)
        seen.append(known.get(read(second, target, size), "?"))
    return seen


def repeated_copies() -> Any:
    """Whether the owner has the source's words after each, whatever changed before it."""
    first, second = contexts()
    enable(first, second)
    source, target = alloc(first, MIB), alloc(second, MIB)
    write(first, source, _pattern(1, MIB))
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: write(second, target, _pattern(2, MIB)),
        lambda: call("cuMemsetD32_v2", target, 7, 9),
        lambda: write(first, source, _pattern(3, MIB)),
        lambda: call("cuMemcpyDtoD_v2", source + 4096, source, 4096),
    ]
    seen = []
    for change in (*changes, *changes):
        call("cuCtxSetCurrent", first)
        change()
        call("cuCtxSetCurrent", first)
        call("cuMemcpyDtoD_v2", target, source, MIB)
        seen.append(read(second, target, MIB) == read(first, source, MIB))
    return seen


def events_asked_in_turn() -> Any:
    """What the event of a copy answers, that behind two copies elsewhere, and the first again."""
    first, second = contexts()
    enable(first, second)
    source, target = alloc(first, MIB), alloc(second, MIB)
    call("cuCtxSetCurrent", first)
    events = []
    for copies in (1, 2):
        stream, event = get(c_void_p, "cuStreamCreate", 1), get(c_void_p, "cuEventCreate", 0)
        for _ in range(copies):
            call("cuMemcpyDtoDAsync_v2", target, source, MIB, stream)
        call("cuEventRecord", event, stream)
        events.append(event)
    return [code("cuEventQuery", events[number]) for number in (0, 1, 0, 0)]


def without_peer_access() -> Any:
    first, second = contexts()
    data = _pattern(1, MIB)
    source, target = alloc(first, MIB), alloc(second, MIB)
    write(first, source, data)
    call("cuMemcpyPeer", target, second, source, first, MIB)
    return read(second, target, MIB) == data


def start_copy_and_poll() -> Any:
    """Says what stream and event answer after a copy, then waits for it, maybe for ever."""
    first, second = contexts()
    enable(first, second)
    source, target = alloc(first, MIB), alloc(second, MIB)
    write(second, target, b"\xee" * MIB)
    call("cuCtxSetCurrent", first)
    stream, event = get(c_void_p, "cuStreamCreate", 1), get(c_void_p, "cuEventCreate", 0)
    call("cuMemcpyDtoDAsync_v2", target, source, MIB, stream)
    call("cuEventRecord", event, stream)
    polled = [code("cuStreamQuery", stream), code("cuEventQuery", event)]
    owner = read(second, target, MIB) == b"\xee" * MIB
    _say(f"{polled[0]} {polled[1]} {owner}")
    call("cuStreamSynchronize", stream)
    return "finished"


def peer_copy_then_read() -> Any:
    first, second = contexts()
    enable(first, second)
    source, target = alloc(first, MIB), alloc(second, MIB)
    call("cuCtxSetCurrent", first)
    call("cuMemcpyPeer", target, second, source, first, MIB)
    _say("queued")
    read(second, target, MIB)
    return "finished"


def rates() -> Any:
    """GB/s of 256 MiB, direct, both ways at once, and staged; microseconds of four bytes."""
    size = 256 * MIB
    first, second = contexts()
    source, target = alloc(first, size), alloc(second, size)
    call("cuCtxSetCurrent", first)
    copy = ("cuMemcpyDtoDAsync_v2", target, source)
    staged = timed(None, *copy, size, None)
    enable(first, second)
    enable(second, first)
    call("cuCtxSetCurrent", first)
    direct = timed(None, *copy, size, None)
    small = timed(None, *copy, 4, None)
    return {
        "staged": size / staged / 1e6,
        "direct": size / direct / 1e6,
        "latency": small * 1000,
        "both": 2 * size / _both_ways(first, second, source, target, size) / 1e6,
    }


def _both_ways(first: int, second: int, source: int, target: int, size: int) -> float:
    events = []
    streams = []
    for context, to, at in ((first, target, source), (second, source, target)):
        call("cuCtxSetCurrent", context)
        stream = get(c_void_p, "cuStreamCreate", 1)
        before, after = (get(c_void_p, "cuEventCreate", 0) for _ in range(2))
        call("cuEventRecord", before, stream)
        call("cuMemcpyDtoDAsync_v2", to, at, size, stream)
        call("cuEventRecord", after, stream)
        streams.append(stream)
        events.append((before, after))
    for stream in streams:
        call("cuStreamSynchronize", stream)
    return max(float(get(c_float, "cuEventElapsedTime", *pair)) for pair in events)


def memory() -> Any:
    """Sizes that do and do not fit, what is free, and what bounds are kept."""
    own = contexts()[0]
    call("cuCtxSetCurrent", own)

    def free() -> int:
        now, total = c_size_t(), c_size_t()
        call("cuMemGetInfo_v2", byref(now), byref(total))
        return now.value

    before = free()
    pointer = alloc(own, MIB)
    during = free()
    data = b"x" * (MIB + 1)
    seen = {
        "too much": code("cuMemAlloc_v2", byref(c_uint64()), before + 1),
        "nothing": code("cuMemAlloc_v2", byref(c_uint64()), 0),
        "beyond": code("cuMemcpyHtoD_v2", pointer, data, MIB + 1),
        "before": code("cuMemcpyHtoD_v2", pointer - 1, data, 1),
        "inside": code("cuMemFree_v2", pointer + 1),
        "files": len(os.listdir(os.environ["RIGSIM_SHM"])),  # noqa: PTH208 - names are enough
        "free": code("cuMemFree_v2", pointer),
        "again": code("cuMemFree_v2", pointer),
    }
    left = os.listdir(os.environ["RIGSIM_SHM"])  # noqa: PTH208 - names are compared
    return {**seen, "taken": before - during, "back": before - free(), "left": left}


def set_words() -> Any:
    own = contexts()[0]
    pointer = alloc(own, 64)
    call("cuMemsetD32_v2", pointer + 16, 0xCAFE, 4)
    host = get(c_void_p, "cuMemAllocHost_v2", 64)
    call("cuMemcpyDtoH_v2", host, pointer, 64)
    call("cuMemFreeHost", host)
    return read(own, pointer, 64).hex()


def touch_on_host() -> Any:
    pointer = alloc(contexts()[0], MIB)
    return c_int.from_address(pointer).value


def leave_memory_behind() -> Any:
    """Ends without freeing, or is killed while it waits."""
    alloc(contexts()[0], MIB)
    _say("allocated")
    return _listen()


def current_contexts() -> Any:
    first, second = contexts()
    none = code("cuCtxSynchronize")
    call("cuCtxPushCurrent_v2", first)
    call("cuCtxPushCurrent_v2", second)
    popped = [get(c_void_p, "cuCtxPopCurrent_v2") for _ in range(2)]
    call("cuCtxSetCurrent", first)
    pointer = alloc(first, MIB)
    call("cuDevicePrimaryCtxReset_v2", 0)
    destroyed = code("cuMemFree_v2", pointer)
    call("cuDevicePrimaryCtxRelease_v2", 1)
    gone = code("cuCtxSetCurrent", second)
    return [none, popped == [second, first], destroyed, gone]


def lose_a_card() -> Any:
    """Copies to a card before and after somebody throws it off the bus."""
    first, second = contexts()
    there = alloc(second, MIB)
    write(second, there, b"x" * MIB)
    _say("ready")
    _listen()
    seen = []
    for context in (first, second):
        call("cuCtxSetCurrent", context)
        seen.append(code("cuCtxSynchronize"))
    call("cuCtxSetCurrent", first)
    own = alloc(first, MIB)
    seen.append(code("cuMemcpyPeer", there, second, own, first, MIB))
    seen.append(code("cuDevicePrimaryCtxRetain", byref(c_void_p()), 1))
    return seen


def export_memory() -> Any:
    """Offers memory of card 1 and says what the other process left in it."""
    second = contexts()[1]
    pointer = alloc(second, MIB)
    write(second, pointer, b"\xee" * MIB)
    handle = IpcHandle()
    call("cuIpcGetMemHandle", byref(handle), pointer)
    own = code("cuIpcOpenMemHandle_v2", byref(c_uint64()), handle, 1)
    _say(bytes(handle).hex())
    _listen()
    content = read(second, pointer, MIB)
    return [
        own,
        "right" if content == _pattern(1, MIB) else "old" if set(content) == {0xEE} else "?",
    ]


def import_memory(handle: str) -> Any:
    """Copies from card 0 into it and reads it back; closes it, and is refused a second time."""
    first = contexts()[0]
    call("cuCtxSetCurrent", first)
    inside = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    target = c_uint64()
    opened = code("cuIpcOpenMemHandle_v2", byref(target), inside, 1)
    if opened:
        return [opened]
    source, back = alloc(first, MIB), alloc(first, MIB)
    write(first, source, _pattern(1, MIB))
    call("cuMemcpyDtoD_v2", target.value, source, MIB)
    call("cuMemcpyDtoD_v2", back, target.value, MIB)
    seen = read(first, back, MIB) == _pattern(1, MIB)
    closed = [code("cuIpcCloseMemHandle", target.value) for _ in range(2)]
    return [opened, seen, closed]


PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 to) {
    .reg .b32 %word;
    .reg .b64 %to;
    ld.param.u64 %to, [to];
    ld.global.u32 %word, [%to];
    add.u32 %word, %word, 1;
    st.global.u32 [%to], %word;
    ret;
}
"""


def launch() -> Any:
    own = contexts()[0]
    to = alloc(own, 64)
    module = get(c_void_p, "cuModuleLoadData", PTX)
    seen = [
        code("cuModuleLoadData", byref(c_void_p()), b"nonsense"),
        code("cuModuleGetFunction", byref(c_void_p()), module, b"add_two"),
    ]
    function = get(c_void_p, "cuModuleGetFunction", module, b"add_one")
    for address in (to, to, to + 64):
        value = c_uint64(address)
        parameters = (c_void_p * 1)(addressof(value))
        seen.append(code("cuLaunchKernel", function, *[1] * 6, 0, None, parameters, None))
        if address == to:
            seen.append(int.from_bytes(read(own, to, 4), "little"))
    return [*seen, *(code("cuCtxSynchronize") for _ in range(2))]


def compile_text(text: str) -> Any:
    """The answer to a text, and the log of the compiler."""
    call("cuCtxSetCurrent", contexts()[0])
    log = create_string_buffer(512)
    options, values = (c_int * 2)(5, 6), (c_void_p * 2)(addressof(log), len(log))
    return [
        code("cuModuleLoadDataEx", byref(c_void_p()), text.encode(), 2, options, values),
        log.value.decode(),
        values[1],
    ]


def poll_until_killed() -> Any:
    """Starts a copy that hangs and never calls anything that blocks."""
    first, second = contexts()
    enable(first, second)
    source, target = alloc(first, MIB), alloc(second, MIB)
    call("cuCtxSetCurrent", first)
    call("cuMemcpyDtoD_v2", target, source, MIB)
    _say("polling")
    while code("cuStreamQuery", None) == NOT_READY:
        time.sleep(0.05)
    return "finished"


def first_error() -> Any:
    try:
        contexts()
    except CudaError as error:
        return error.code
    return 0
