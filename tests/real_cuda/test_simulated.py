"""The simulated libcuda and libnccl, compiled against NVIDIA's headers in the place of their own.

A function that a header declares otherwise, or not at all, is an error of the compiler.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.lab.silicon.cuda.build import FLAGS, HERE
from tests.real_cuda import compiler
from tests.shards import REAL_CUDA

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.shard(REAL_CUDA)

# The structs behind its handles are named in cuda.h and defined in the simulation. Older ABIs are
# exported too, as the library has them: cuda.h declares these only to itself.
CUDA_H = """\
#include <stddef.h>
#include <stdint.h>
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#define CUAPI __attribute__((visibility("default")))
#define context CUctx_st
#define stream CUstream_st
#define event CUevent_st
#define module CUmod_st
#define function CUfunc_st
"""
NCCL_H = f"{compiler.NCCL_H}#define comm ncclComm\n"
OPTIONS = (
    *(flag for flag in FLAGS if flag.startswith(("-W", "-D"))),
    *("-Werror=missing-declarations", "-Wno-pointer-sign"),
    *('-DVERSION="535.261.03"', "-DVERSION_CODE=21805"),
)
SOURCES = tuple(sorted(path.name for path in HERE.glob("*.c")))


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Of the compiler about one of the sources, after something in it was replaced."""
    folder = tmp_path_factory.mktemp("simulated")
    for path in (*HERE.glob("*.c"), *HERE.glob("*.h")):
        shutil.copy(path, folder)
    (folder / "api.h").write_text(CUDA_H)
    (folder / "nccl_api.h").write_text(NCCL_H)

    def compile_source(name: str, old: str = "", new: str = "") -> str:
        text = (HERE / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new) if old else text)
        return compiler.complaints_about(folder / name, *OPTIONS)

    return compile_source


@pytest.mark.parametrize("source", SOURCES)
def test_its_functions_are_those_of_the_header(source: str, complaints: Callable[..., str]) -> None:
    assert complaints(source) == ""


CHANGES = {
    "an address of 32 bits": ("memory.c", "cuMemFree_v2(CUdeviceptr", "cuMemFree_v2(unsigned"),
    "an argument too many": ("memory.c", "cuMemFree_v2(", "cuMemFree_v2(int more, "),
    "a function that there is not": ("memory.c", "CUAPI CUresult cuMemFree_v2(",
                                     "CUAPI CUresult cuMemFree_v9("),
    "another type of data": ("libnccl.c", "ncclDataType_t type,\n", "size_t type,\n"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_another_prototype_is_an_error(change: str, complaints: Callable[..., str]) -> None:
    assert "error: " in complaints(*CHANGES[change])


def test_its_constants_and_sizes_are_those_of_the_headers() -> None:
    own = (HERE / "api.h").read_text() + (HERE / "nccl_api.h").read_text()
    values = re.findall(r"\b(\w+) = (\d+)\b", own)
    sizes = [(name, size) for size, name in re.findall(r"struct \{ .*\[(\d+)\]; \} (\w+);", own)]
    assert len(values) > 50
    assert [name for name, _ in sizes] == ["CUuuid", "CUipcMemHandle", "ncclUniqueId"]

    conditions = [f"{name} == {value}" for name, value in values]
    conditions += [f"sizeof({name}) == {size}" for name, size in sizes]

    assert compiler.false_ones(conditions) == ""
    assert compiler.false_ones(["ncclFloat32 == 6"]) != ""


def test_libnccl_calls_libcuda_as_cuda_h_declares_it() -> None:
    text = (HERE / "libnccl.c").read_text()
    declared = re.findall(r"F\((cu\w+), *(\([^()]*\))\)", text)
    assert len(declared) == text.count("F(cu")

    def redeclared(functions: list[tuple[str, str]]) -> str:
        lines = [f"CUresult {name}{arguments};" for name, arguments in functions]
        return compiler.complaints("\n".join([compiler.CUDA_H, *lines]) + "\n")

    assert redeclared(declared) == ""
    assert "error: conflicting types" in redeclared([("cuMemFree_v2", "(unsigned)")])
