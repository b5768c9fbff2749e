"""The part of cuda.h that the program uses."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, ClassVar

NOT_READY = 600


class IpcHandle(ctypes.Structure):
    _fields_: ClassVar[Any] = [("reserved", ctypes.c_char * 64)]


class CudaError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


_SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuGetProcAddress_v2": [c_char_p, POINTER(c_void_p), c_int, c_uint64, POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetPCIBusId": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    "cuDeviceCanAccessPeer": [POINTER(c_int), c_int, c_int],
    "cuDeviceGetP2PAttribute": [POINTER(c_int), c_int, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuDevicePrimaryCtxReset_v2": [c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuCtxSynchronize": [],
    "cuCtxEnablePeerAccess": [c_void_p, c_uint],
    "cuCtxDisablePeerAccess": [c_void_p],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t],
    "cuMemFreeHost": [c_void_p],
    "cuMemcpyHtoD_v2": [c_uint64, c_char_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemcpyDtoD_v2": [c_uint64, c_uint64, c_size_t],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemcpyPeer": [c_uint64, c_void_p, c_uint64, c_void_p, c_size_t],
    "cuMemcpyPeerAsync": [c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemsetD32_v2": [c_uint64, c_uint, c_size_t],
    "cuIpcGetMemHandle": [POINTER(IpcHandle), c_uint64],
    "cuIpcOpenMemHandle_v2": [POINTER(c_uint64), IpcHandle, c_uint],
    "cuIpcCloseMemHandle": [c_uint64],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamQuery": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
    "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleLoadDataEx": [POINTER(c_void_p), c_char_p, c_uint, c_void_p, c_void_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p],
}

_library = ctypes.CDLL(os.environ["LIBCUDA"], mode=ctypes.RTLD_GLOBAL)
for _name, _arguments in _SIGNATURES.items():
    _function = getattr(_library, _name)
    _function.argtypes, _function.restype = _arguments, c_int


def code(name: str, *arguments: Any) -> int:
    """What the function returns."""
    return int(getattr(_library, name)(*arguments))


def call(name: str, *arguments: Any) -> None:
    result = code(name, *arguments)
    if result:
        raise CudaError(result)


def get(kind: Any, name: str, *arguments: Any) -> Any:
    """What a function stores where its first argument points."""
    value = kind()
    call(name, byref(value), *arguments)
    return value.value


def alloc(context: int, size: int) -> int:
    call("cuCtxSetCurrent", context)
    return int(get(c_uint64, "cuMemAlloc_v2", size))


def write(context: int, to: int, data: bytes) -> None:
    call("cuCtxSetCurrent", context)
    call("cuMemcpyHtoD_v2", to, data, len(data))


def read(context: int, at: int, size: int) -> bytes:
    call("cuCtxSetCurrent", context)
    buffer = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", buffer, at, size)
    return buffer.raw


def contexts() -> list[int]:
    call("cuInit", 0)
    count = get(c_int, "cuDeviceGetCount")
    return [get(c_void_p, "cuDevicePrimaryCtxRetain", device) for device in range(count)]


def enable(of: int, to: int) -> int:
    call("cuCtxSetCurrent", of)
    return code("cuCtxEnablePeerAccess", to, 0)


def timed(stream: int | None, name: str, *arguments: Any) -> float:
    """Milliseconds, by events."""
    before, after = (get(c_void_p, "cuEventCreate", 0) for _ in range(2))
    call("cuEventRecord", before, stream)
    call(name, *arguments)
    call("cuEventRecord", after, stream)
    call("cuStreamSynchronize", stream)
    return float(get(c_float, "cuEventElapsedTime", before, after))
