"""A signed archive for tests: a release, the index that it names, and who signed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops.vault.signatures import Signatures, SignedIndex, SignedRelease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.vault.kept import KeptPackage

PATH = "non-free/binary-amd64/Packages"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
KEY = "A" * 40


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def index_text(packages: Iterable[KeptPackage]) -> bytes:
    return "\n".join(
        f"Package: {one.name}\nVersion: {one.version}\nArchitecture: {one.architecture}\n"
        f"Size: {one.size}\nSHA256: {one.sha256}\nDescription: what is there\n"
        for one in packages
    ).encode()


def release_text(index: bytes, path: str = PATH) -> str:
    return (
        "Origin: Debian\nSuite: stable\nMD5Sum:\n"
        f" {'0' * 32} {len(index)} {path}\nSHA256:\n {digest(index)} {len(index)} {path}\n"
    )


def inline(text: str) -> bytes:
    lines = (f"- {line}" if line.startswith("-") else line for line in text.split("\n"))
    body = "\n".join(lines)
    return (
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{body}"
        "-----BEGIN PGP SIGNATURE-----\n\nabcd\n=abcd\n-----END PGP SIGNATURE-----\n"
    ).encode()


@dataclass
class Archive:
    """`files`: what lies where, by digest."""

    packages: tuple[KeptPackage, ...]
    keyring: str = KEYRING
    detached: bool = False
    files: dict[str, bytes] = field(default_factory=dict)

    def signatures(self, index: bytes | None = None, release: str | None = None) -> Signatures:
        index = index_text(self.packages) if index is None else index
        text = release_text(index) if release is None else release
        packed = self._put(gzip.compress(index, mtime=0))
        signed = self._put(text.encode() if self.detached else inline(text))
        return Signatures(
            (
                SignedRelease(
                    text=signed,
                    signature=self._put(b"a signature") if self.detached else "",
                    source="http://deb.example/debian bookworm",
                    keyring=self.keyring,
                    keys=(KEY,) if self.keyring else (),
                    said=("Good signature",),
                ),
            ),
            (
                SignedIndex(
                    file=packed, path=PATH, sha256=digest(index), size=len(index), release=signed
                ),
            ),
            {one.sha256: packed for one in self.packages},
        )

    def _put(self, data: bytes) -> str:
        self.files[digest(data)] = data
        return digest(data)
