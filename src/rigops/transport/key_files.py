"""Files of OpenSSH: known_hosts, and key files without their passphrase.

Lines of known_hosts that mean nothing here (keys of unknown types, comments, garbage) are skipped.
Time and memory are bounded: overlong lines and what lies beyond the first 16 MiB of a file are not
read, which can only make a host unknown.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rigops.dataclass import dataclass

_MOST_BYTES: Final = 16 * 1024 * 1024
_LONGEST_LINE: Final = 64 * 1024
_LARGEST_KEY: Final = 256 * 1024
_MAGIC: Final = b"openssh-key-v1\x00"
_BEGIN: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END: Final = b"-----END OPENSSH PRIVATE KEY-----"
_MARKERS: Final = {b"@revoked": "revoked", b"@cert-authority": "cert-authority"}


@dataclass(frozen=True, kw_only=True)
class KnownKey:
    """A line about `name`, one of the names that were looked for."""

    name: str
    key_type: str
    blob: bytes
    file: Path
    line: int
    marker: str = ""


def lookup(files: Iterable[Path], names: Iterable[str]) -> list[KnownKey]:
    """Every line of these files about one of these names."""
    wanted = [name.lower().encode("utf-8", "surrogateescape") for name in names]
    return [
        key
        for file in files
        for number, line in _lines(file)
        if (key := parse_line(line, wanted, file, number)) is not None
    ]


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        # A pipe without a writer is empty: to wait for one would hold up every connection.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            number, read, at_start = 0, 0, True
            while read < _MOST_BYTES and (line := stream.readline(_LONGEST_LINE)):
                read += len(line)
                ends = line.endswith(b"\n")
                if at_start:
                    number += 1
                    if ends or len(line) < _LONGEST_LINE:
                        yield number, line
                at_start = ends
    except OSError:
        return


def parse_line(line: bytes, wanted: Sequence[bytes], file: Path, number: int) -> KnownKey | None:
    words = line.split(None, 4)
    marker = ""
    if words and words[0].startswith(b"@"):
        marker = _MARKERS.get(words.pop(0), "unknown")
    if len(words) < 3 or words[0].startswith(b"#") or marker == "unknown":  # noqa: PLR2004 - names, type, key
        return None
    name = next((name for name in wanted if is_named(words[0], name)), None)
    if name is None:
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    key_type = blob_type(blob)
    if key_type is None or key_type.encode() != words[1]:
        return None
    return KnownKey(
        name=name.decode("utf-8", "surrogateescape"),
        key_type=key_type,
        blob=blob,
        file=file,
        line=number,
        marker=marker,
    )


def blob_type(blob: bytes) -> str | None:
    """The type that a public key names itself."""
    size = int.from_bytes(blob[:4], "big")
    name = blob[4 : 4 + size]
    return name.decode("ascii", "replace") if 0 < size == len(name) < len(blob) - 4 else None


def is_named(names: bytes, wanted: bytes) -> bool:
    """Whether the first field of a line is about this name, in lower case."""
    if names.startswith(b"|"):
        return _hash_matches(names, wanted)
    found = False
    for pattern in names.lower().split(b","):
        if pattern.startswith(b"!"):
            if _glob(pattern[1:], wanted):
                return False
        elif pattern and not found:
            found = _glob(pattern, wanted)
    return found


def _hash_matches(names: bytes, wanted: bytes) -> bool:
    parts = names.split(b"|")
    if len(parts) != 4 or parts[1] != b"1":  # noqa: PLR2004 - |1|salt|hash
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(_hash(salt, wanted), digest)


def _hash(salt: bytes, name: bytes) -> bytes:
    return hmac.digest(salt, name, "sha1")


def _glob(pattern: bytes, text: bytes) -> bool:
    """Only * and ? are special; never worse than the product of the lengths."""
    at = position = 0
    star, mark = -1, 0
    while position < len(text):
        if at < len(pattern) and pattern[at] == ord("*"):
            star, mark = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in (ord("?"), text[position]):
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = star + 1, mark
        else:
            return False
    return not pattern[at:].strip(b"*")


def fingerprint(blob: bytes) -> str:
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return "SHA256:" + digest.rstrip("=")


def append(file: Path, name: str, key_type: str, blob: bytes, *, hashed: bool) -> None:
    """Add one line, whole, to a file that only its owner reads, whatever its last line lacks."""
    shown = hashed_name(name) if hashed else name
    line = f"{shown} {key_type} {base64.b64encode(blob).decode()}\n".encode()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = open_locked(file)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, "incomplete write")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hashed_name(name: str) -> str:
    salt = secrets.token_bytes(20)
    parts = (salt, _hash(salt, name.lower().encode()))
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in parts)


def open_locked(file: Path) -> int:
    """The file that has this name once the lock is held: its last holder may have replaced it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


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
            return stream.read(_LARGEST_KEY)
    except (OSError, ValueError):
        return None


def public_blob(text: bytes) -> bytes | None:
    """From a .pub file."""
    words = text.split(None, 2)
    if len(words) < 2:  # noqa: PLR2004 - type and key
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
