"""What a key file is, without its passphrase: its type, its public part, locked or not."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.transport.known_hosts import blob_type

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST: Final = 256 * 1024
_MAGIC: Final = b"openssh-key-v1\x00"
_BEGIN: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END: Final = b"-----END OPENSSH PRIVATE KEY-----"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One IdentityFile. `blob` is its public key, where that can be known without a passphrase."""

    path: Path
    private: bool
    locked: bool
    blob: bytes | None

    @property
    def key_type(self) -> str:
        return (self.blob and blob_type(self.blob)) or ""

    @property
    def is_security_key(self) -> bool:
        return self.key_type.startswith("sk-")


def read_identity(path: Path) -> Identity | None:
    """None where there is no such key."""
    text = _read(path)
    public = public_blob(_read(path.with_name(path.name + ".pub")) or b"")
    if text is None:
        return Identity(path=path, private=False, locked=False, blob=public) if public else None
    if _BEGIN in text:
        body = text.partition(_BEGIN)[2].partition(_END)[0]
        locked, blob = _parse_openssh(body)
        return Identity(path=path, private=True, locked=locked, blob=blob or public)
    if b"PRIVATE KEY-----" in text:
        return Identity(path=path, private=True, locked=b"ENCRYPTED" in text, blob=public)
    blob = public_blob(text)
    return Identity(path=path, private=False, locked=False, blob=blob) if blob else None


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_LARGEST)
    except (OSError, ValueError):
        return None


def public_blob(text: bytes) -> bytes | None:
    """From a .pub file."""
    words = text.split(None, 2)
    if len(words) < 2:  # noqa: PLR2004  type and key
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    return blob if (blob_type(blob) or "").encode() == words[0] else None


def _parse_openssh(body: bytes) -> tuple[bool, bytes | None]:
    try:
        data = base64.b64decode(b"".join(body.split()))
    except (binascii.Error, ValueError):
        return False, None
    if not data.startswith(_MAGIC):
        return False, None
    cipher, rest = _string(data[len(_MAGIC) :])
    _, rest = _string(rest)  # the name of the key derivation
    _, rest = _string(rest)  # and its options
    blob, _ = _string(rest[4:])  # after the number of keys, always 1
    return cipher not in (b"", b"none"), blob if blob_type(blob) else None


def _string(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "big")
    return data[4 : 4 + size], data[4 + size :]
