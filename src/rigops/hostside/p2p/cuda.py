"""The driver's own library, through ctypes. Imported in children only: its calls may never return.

Names carry the suffixes that cuda.h adds by macro; without them they are the 32-bit ABI of old.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY: Final = "libcuda.so.1"

NO_MEMORY: Final = 2
NO_DEVICE: Final = 100
NOT_READY: Final = 600
DEVICE_UNAVAILABLE: Final = 46
MAP_FAILED: Final = 205
PEER_UNSUPPORTED: Final = 217
PEER_ENABLED: Final = 704
PEER_NOT_ENABLED: Final = 705
# No binary for the GPU, invalid PTX, no compiler, a version of PTX that it does not know.
CANNOT_COMPILE: Final = frozenset((209, 218, 221, 222))

PERFORMANCE_RANK: Final = 1
NATIVE_ATOMICS: Final = 3

LAZY_PEER_ACCESS: Final = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
JIT_ERROR_LOG: Final = 5  # CU_JIT_ERROR_LOG_BUFFER
JIT_ERROR_LOG_SIZE: Final = 6  # CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES

ERROR_NAMES: Final[Mapping[int, str]] = {
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    205: "CUDA_ERROR_MAP_FAILED",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    217: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    218: "CUDA_ERROR_INVALID_PTX",
    221: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    702: "CUDA_ERROR_LAUNCH_TIMEOUT",
    711: "CUDA_ERROR_TOO_MANY_PEERS",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    999: "CUDA_ERROR_UNKNOWN",
}
_HINTS: Final[Mapping[int, str]] = {
    205: "often a BAR1 that is too small for peer mappings",
    221: "libnvidia-ptxjitcompiler.so.1, a part of the driver, is not installed",
    711: "a context has at most 8 peers",
    802: "on NVSwitch machines the fabric manager is not running",
    803: "the kernel module and libcuda are of different versions: reboot, or reload the module",
}


class IpcHandle(ctypes.Structure):
    """The handle by which another process opens this one's memory."""

    _fields_: ClassVar[Any] = [("reserved", ctypes.c_char * 64)]


_number = ctypes.c_int
_count = ctypes.c_uint
_size = ctypes.c_size_t
_memory = ctypes.c_uint64
_handle = ctypes.c_void_p
_text = ctypes.c_char_p
_out = ctypes.c_void_p  # wherever the call writes to

PROTOTYPES: Final[Mapping[str, tuple[Any, ...]]] = {
    "cuInit": (_count,),
    "cuDriverGetVersion": (_out,),
    "cuGetErrorName": (_number, _out),
    "cuDeviceGetCount": (_out,),
    "cuDeviceGet": (_out, _number),
    "cuDeviceGetByPCIBusId": (_out, _text),
    "cuDeviceGetName": (_text, _number, _number),
    "cuDeviceGetPCIBusId": (_text, _number, _number),
    "cuDeviceTotalMem_v2": (_out, _number),
    "cuDeviceCanAccessPeer": (_out, _number, _number),
    "cuDeviceGetP2PAttribute": (_out, _number, _number, _number),
    "cuDevicePrimaryCtxRetain": (_out, _number),
    "cuCtxSetCurrent": (_handle,),
    "cuCtxSynchronize": (),
    "cuCtxEnablePeerAccess": (_handle, _count),
    "cuMemGetInfo_v2": (_out, _out),
    "cuMemAlloc_v2": (_out, _size),
    "cuMemFree_v2": (_memory,),
    "cuMemAllocHost_v2": (_out, _size),
    "cuMemFreeHost": (_handle,),
    "cuMemsetD32_v2": (_memory, _count, _size),
    "cuMemcpyHtoD_v2": (_memory, _handle, _size),
    "cuMemcpyDtoH_v2": (_handle, _memory, _size),
    "cuMemcpyDtoDAsync_v2": (_memory, _memory, _size, _handle),
    "cuMemcpyPeerAsync": (_memory, _handle, _memory, _handle, _size, _handle),
    "cuIpcGetMemHandle": (_out, _memory),
    "cuIpcOpenMemHandle_v2": (_out, IpcHandle, _count),
    "cuStreamCreate": (_out, _count),
    "cuStreamQuery": (_handle,),
    "cuEventCreate": (_out, _count),
    "cuEventRecord": (_handle, _handle),
    "cuEventQuery": (_handle,),
    "cuEventElapsedTime": (_out, _handle, _handle),
    "cuModuleLoadDataEx": (_out, _text, _count, _out, _out),
    "cuModuleGetFunction": (_out, _handle, _text),
    "cuLaunchKernel": (_handle, *[_count] * 7, _handle, _out, _out),
}


class NoLibraryError(Exception):
    """There is no usable libcuda: the driver's compute libraries are not installed."""


class CudaError(Exception):
    def __init__(self, call: str, code: int, name: str) -> None:
        hint = f" ({_HINTS[code]})" if code in _HINTS else ""
        super().__init__(f"{call}: {name} {code}{hint}")
        self.code = code


class Cuda:
    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
            for name, arguments in PROTOTYPES.items():
                function = getattr(self._library, name)
                function.argtypes = arguments
                function.restype = ctypes.c_int
        except (OSError, AttributeError) as error:
            raise NoLibraryError(str(error)) from error

    def code(self, call: str, *arguments: object) -> int:
        """The return value of the call, for calls whose failure is an answer."""
        returned: int = getattr(self._library, call)(*arguments)
        return returned

    def do(self, call: str, *arguments: object) -> None:
        code = self.code(call, *arguments)
        if code:
            raise CudaError(call, code, self.name(code))

    def number(self, call: str, *arguments: object) -> int:
        """For calls that write one int to where their first argument points."""
        out = ctypes.c_int()
        self.do(call, ctypes.byref(out), *arguments)
        return out.value

    def size(self, call: str, *arguments: object) -> int:
        out = ctypes.c_size_t()
        self.do(call, ctypes.byref(out), *arguments)
        return out.value

    def handle(self, call: str, *arguments: object) -> int:
        out = ctypes.c_void_p()
        self.do(call, ctypes.byref(out), *arguments)
        return out.value or 0

    def memory(self, size: int) -> int:
        out = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(out), size)
        return out.value

    def handle_of(self, memory: int) -> bytes:
        out = IpcHandle()
        self.do("cuIpcGetMemHandle", ctypes.byref(out), memory)
        return bytes(out)

    def open_handle(self, handle: bytes) -> int:
        """Memory of another process, for the current context, with peer access to its GPU."""
        out = ctypes.c_uint64()
        self.do(
            "cuIpcOpenMemHandle_v2",
            ctypes.byref(out),
            IpcHandle.from_buffer_copy(handle),
            LAZY_PEER_ACCESS,
        )
        return out.value

    def device_text(self, call: str, device: int) -> str:
        out = ctypes.create_string_buffer(256)
        self.do(call, out, len(out), device)
        return out.value.decode("utf-8", "replace")

    def free_memory(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.do("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def milliseconds(self, start: int, end: int) -> float:
        out = ctypes.c_float()
        self.do("cuEventElapsedTime", ctypes.byref(out), start, end)
        return out.value

    def name(self, code: int) -> str:
        out = ctypes.c_char_p()
        if self.code("cuGetErrorName", code, ctypes.byref(out)) == 0 and out.value:
            return out.value.decode("utf-8", "replace")
        return ERROR_NAMES.get(code, "CUDA error")
