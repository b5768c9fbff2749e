"""python -m tests.real_cuda.program WHAT LIBRARY [CODE…] prints as JSON what a library answers.

A process of its own for each: these libraries stay loaded, start threads and look for devices.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

from rigops.hostside.p2p.cuda import Cuda, CudaError

ID_BYTES = 128


def driver(library: str, *codes: str) -> Any:
    """Through the product's own table of calls: one that the library lacks is an error."""
    cuda = Cuda(library)
    try:
        cuda.do("cuInit", 0)
        started = "cuInit: CUDA_SUCCESS 0"
    except CudaError as error:
        started = str(error)
    version = cuda.number("cuDriverGetVersion")
    return {"cuInit": started, "version": version, "errors": errors(library, *codes)}


def errors(library: str, *codes: str) -> dict[str, Any]:
    """Name and text of each."""
    cuda = ctypes.CDLL(library)
    found = {}
    for code in codes:
        texts = []
        for call in (cuda.cuGetErrorName, cuda.cuGetErrorString):
            out = ctypes.c_char_p()
            call(int(code), ctypes.byref(out))
            texts.append((out.value or b"").decode())
        found[code] = texts
    return found


def symbols(library: str, *names: str) -> list[str]:
    """Those of the names that the library lacks."""
    loaded = ctypes.CDLL(library)
    return [name for name in names if not hasattr(loaded, name)]


def collectives(library: str) -> Any:
    nccl = ctypes.CDLL(library)
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclGetLastError.argtypes = (ctypes.c_void_p,)
    version = ctypes.c_int()
    answered = nccl.ncclGetVersion(ctypes.byref(version))
    unique = nccl.ncclGetUniqueId(ctypes.create_string_buffer(ID_BYTES))
    refused = nccl.ncclCommInitAll((ctypes.c_void_p * 2)(), 2, None)
    return {
        "version": [answered, version.value],
        "unique_id": unique,
        "init_all": [refused, nccl.ncclGetLastError(None).decode()],
        "errors": nccl_errors(library),
    }


def nccl_errors(library: str) -> list[str]:
    """The text of each code, and of one that there is not."""
    nccl = ctypes.CDLL(library)
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    return [nccl.ncclGetErrorString(code).decode() for code in range(9)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])) + "\n")
