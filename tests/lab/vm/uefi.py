"""A firmware that insists on signatures, and its variables as they lie in a file.

Enrolled are Microsoft's keys, as on a board from a shop: so it starts Debian's shim, which starts
what Debian signed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from pathlib import Path

CODE: Final = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
VARIABLES: Final = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"

_SHIM: Final = UUID("605dab50-e046-4300-abb6-3dd810dd8b23").bytes_le
_X509: Final = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
_NAME: Final = "MokList\0".encode("utf-16-le")
_OF_BOOT_SERVICES: Final = 3  # kept, and not to be written once a system runs
_HEADER: Final = struct.Struct("<HBBIQ16sIII16s")
_BEGIN, _WHOLE, _FREE = 0x55AA, 0x3F, 0xFFFF
_LENGTH_AT: Final = 48  # in the volume's header, of that header
_STORE_HEADER: Final = 28


def enroll(variables: Path, certificate: bytes) -> None:
    """As a person does at the console, whom shim asks for it. Once for a file."""
    content = bytearray(variables.read_bytes())
    (length,) = struct.unpack_from("<H", content, _LENGTH_AT)
    at = length + _STORE_HEADER
    while (header := _HEADER.unpack_from(content, at))[0] == _BEGIN:
        at = _aligned(at + _HEADER.size + header[7] + header[8])
    assert header[0] == _FREE, f"{variables}: no free space at {at:#x}"
    signature = _SHIM + certificate
    data = _X509 + struct.pack("<III", 28 + len(signature), 0, len(signature)) + signature
    sizes = (len(_NAME), len(data))
    new = _HEADER.pack(_BEGIN, _WHOLE, 0, _OF_BOOT_SERVICES, 0, b"", 0, *sizes, _SHIM)
    new += _NAME + data
    content[at : at + len(new)] = new
    variables.write_bytes(content)


def _aligned(at: int) -> int:
    return (at + 3) & ~3
