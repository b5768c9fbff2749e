"""How libcuda is called through ctypes, against the prototypes and enums of NVIDIA's cuda.h."""

from __future__ import annotations

import ast
import ctypes
import re
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rigops.hostside import p2p
from rigops.hostside.p2p import cuda
from tests.real_cuda import compiler, headers
from tests.shards import REAL_CUDA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real_cuda.headers import Type

pytestmark = pytest.mark.shard(REAL_CUDA)

HOST_SIDE = Path(p2p.__file__).parents[1]
FITTING = {
    ctypes.c_int: {"int", "enum"},
    ctypes.c_uint: {"unsigned"},
    ctypes.c_size_t: {"unsigned 64"},
    ctypes.c_uint64: {"unsigned 64"},
    ctypes.c_float: {"float"},
    ctypes.c_void_p: {"pointer"},
}
ENUMERATORS = {
    "NO_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY",
    "NO_DEVICE": "CUDA_ERROR_NO_DEVICE",
    "NOT_READY": "CUDA_ERROR_NOT_READY",
    "DEVICE_UNAVAILABLE": "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "MAP_FAILED": "CUDA_ERROR_MAP_FAILED",
    "PEER_UNSUPPORTED": "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    "PEER_ENABLED": "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    "PEER_NOT_ENABLED": "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
    "PERFORMANCE_RANK": "CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK",
    "NATIVE_ATOMICS": "CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED",
    "LAZY_PEER_ACCESS": "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS",
    "JIT_ERROR_LOG": "CU_JIT_ERROR_LOG_BUFFER",
    "JIT_ERROR_LOG_SIZE": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
}


def fits(passed: Any, declared: Type) -> bool:
    if passed is ctypes.c_char_p:
        return declared.text in {"char*", "char *", "void *"}
    if issubclass(passed, ctypes.Structure):
        same = f"sizeof({declared.text}) == {ctypes.sizeof(passed)}"
        return declared.kind == "struct" and not compiler.false_ones([same])
    return declared.kind in FITTING[passed]


@pytest.mark.parametrize("call", cuda.PROTOTYPES)
def test_arguments_are_what_cuda_h_declares(call: str) -> None:
    declared = headers.cuda_h().parameters(call)

    pairs = list(zip_longest(cuda.PROTOTYPES[call], declared))

    assert [pair for pair in pairs if None in pair or not fits(*pair)] == []


def test_one_that_passes_an_address_as_an_int_would_be_found() -> None:
    """Without a prototype ctypes passes 32 bits of it."""
    address = headers.cuda_h().parameters("cuMemFree_v2")[0]

    assert fits(ctypes.c_uint64, address)
    wrong = (ctypes.c_int, ctypes.c_uint, ctypes.c_float, ctypes.c_void_p, ctypes.c_char_p)
    assert [one for one in wrong if fits(one, address)] == []


def test_the_abi_of_old_is_not_taken_for_the_current_one() -> None:
    with pytest.raises(KeyError):
        headers.cuda_h().parameters("cuMemAlloc")


def test_constants_are_those_of_the_enums() -> None:
    own = {name: value for name, value in vars(cuda).items() if type(value) is int}
    assert own.keys() == ENUMERATORS.keys()
    values = {ENUMERATORS[name]: value for name, value in own.items()}
    values |= {name: code for code, name in cuda.ERROR_NAMES.items()}

    assert compiler.false_ones([f"{name} == {value}" for name, value in values.items()]) == ""
    assert compiler.false_ones(["CUDA_ERROR_NO_DEVICE == 101"]) != ""


class Call(NamedTuple):
    method: str
    function: str
    arguments: int | None  # None: as many as there are in a list
    where: str


# Of Cuda: the kinds of what the call writes to where its first argument points.
WRITES = {
    "number": {"int", "enum"},
    "size": {"unsigned 64"},
    "handle": {"pointer"},
}


def calls() -> Iterator[Call]:
    for path in sorted(HOST_SIDE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            match node.args:
                case [ast.Constant(value=str(name)), *rest] if name.startswith("cu"):
                    starred = any(isinstance(one, ast.Starred) for one in rest)
                    count = None if starred else len(rest)
                    yield Call(node.func.attr, name, count, f"{path.name}:{node.lineno}")


def literals() -> set[str]:
    """Every name of a function of libcuda in the program."""
    found = set()
    for path in HOST_SIDE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Constant(value=str(text)) if re.fullmatch(r"cu[A-Z]\w+", text):
                    found.add(text)
    return found


def test_every_function_that_is_called_has_its_prototype() -> None:
    assert {call.function for call in calls()} >= {"cuMemcpyHtoD_v2", "cuLaunchKernel"}
    assert literals() == set(cuda.PROTOTYPES)


def test_calls_pass_as_many_arguments_and_room_for_the_answer() -> None:
    wrong = []
    for call in calls():
        declared = headers.cuda_h().parameters(call.function)
        written = WRITES.get(call.method)
        if written and headers.cuda_h().pointee(declared[0]).kind not in written:
            wrong.append(call)
        expected = len(declared) - bool(written)
        if call.method in {*WRITES, "do", "code"} and call.arguments not in {None, expected}:
            wrong.append(call)

    assert wrong == []
