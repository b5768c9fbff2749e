"""NCCL's library, through ctypes. Imported in children only: its calls may never return."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UINT32: Final = 3  # ncclUint32
SUM: Final = 0  # ncclSum

_enum = ctypes.c_int
_address = ctypes.c_void_p

NCCL_PROTOTYPES: Final[Mapping[str, tuple[Any, ...]]] = {
    "ncclGetVersion": (_address,),
    "ncclCommInitAll": (_address, ctypes.c_int, _address),
    "ncclCommGetAsyncError": (_address, _address),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (_address, _address, ctypes.c_size_t, _enum, _enum, _address, _address),
}


class NcclError(Exception):
    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text} ({code})")


class Nccl:
    """Raises OSError or AttributeError for a file that is no usable library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.ncclGetErrorString.argtypes = (_enum,)
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        for name, arguments in NCCL_PROTOTYPES.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int

    def do(self, call: str, *arguments: object) -> None:
        self._check(call, getattr(self._library, call)(*arguments))

    def _check(self, call: str, code: int) -> None:
        if code:
            text = self._library.ncclGetErrorString(code) or b""
            raise NcclError(call, code, text.decode("utf-8", "replace"))

    def version(self) -> str:
        out = ctypes.c_int()
        self.do("ncclGetVersion", ctypes.byref(out))
        return version_text(out.value)

    def communicators(self, devices: Sequence[int]) -> list[int]:
        """One for each device, all in this process."""
        out = (ctypes.c_void_p * len(devices))()
        numbers = (ctypes.c_int * len(devices))(*devices)
        self.do("ncclCommInitAll", out, len(devices), numbers)
        return [one or 0 for one in out]

    def check(self, communicator: int) -> None:
        """Raise what has failed since the calls returned."""
        out = ctypes.c_int()
        self.do("ncclCommGetAsyncError", communicator, ctypes.byref(out))
        self._check("ncclAllReduce", out.value)


def version_text(code: int) -> str:
    """2.8.4 is 2804, and 2.18.5 is 21805."""
    thousands = 10_000 if code >= 10_000 else 1_000  # noqa: PLR2004 - since 2.9
    return f"{code // thousands}.{code % thousands // 100}.{code % 100}"
