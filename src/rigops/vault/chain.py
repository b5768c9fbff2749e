"""Whether a package is the one that an archive signed: package, index, release. Pure.

That the release's signature is good, gpgv said on the host; here are the digests in between.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rigops.vault.index import stanzas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rigops.vault.kept import KeptPackage
    from rigops.vault.signatures import Signatures, SignedIndex, SignedRelease

LARGEST: Final = 128 * 1024 * 1024  # of an index, unpacked; Ubuntu's universe has 80 MB

_BEGIN: Final = "-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE: Final = "-----BEGIN PGP SIGNATURE-----"
_END: Final = "-----END PGP SIGNATURE-----"
_GZIP: Final = 31  # zlib's way to say so
_ROW: Final = 3  # digest, size and path
_STANZA_END: Final = b"\n\n"


class _BrokenError(Exception):
    """Why the chain does not hold."""


def faults(
    signatures: Signatures,
    packages: Iterable[KeptPackage],
    read: Callable[[str], bytes | None],
) -> dict[str, str]:
    """Why, by the names of packages' files, for those whose chain does not hold.

    `read`: what a digest is that of, if it is here.
    """
    found: dict[str, str] = {}
    of_index: dict[str, list[KeptPackage]] = {}
    for one in packages:
        if one.sha256 in signatures.packages:
            of_index.setdefault(signatures.packages[one.sha256], []).append(one)
    for file, named in of_index.items():
        try:
            records = _signed_index(signatures, file, read)
        except _BrokenError as error:
            found.update({one.file: str(error) for one in named})
            continue
        found.update({one.file: why for one in named if (why := _fault(one, records))})
    return found


def signed_text(data: bytes, *, has_signature: bool) -> str:
    """What of a release file is signed. `has_signature`: it has its own in it.

    Raises:
        ValueError: something in it is not.
    """
    text = data.decode("utf-8")
    if not has_signature:
        return text
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[0] != _BEGIN or lines[-1] != _END or lines.count(_SIGNATURE) != 1:
        raise ValueError("it has more in it than one signed text")
    body = lines[1 : lines.index(_SIGNATURE)]
    if "" not in body:
        raise ValueError("it has no signed text")
    head, inner = body[: body.index("")], body[body.index("") + 1 :]
    if any(not line.startswith("Hash: ") for line in head) or any(
        line.startswith("-") and not line.startswith("- ") for line in inner
    ):
        raise ValueError("it has more in it than one signed text")
    return "\n".join(line.removeprefix("- ") for line in inner)


def _signed_index(signatures: Signatures, file: str, read: Callable[[str], bytes | None]) -> bytes:
    """The text of an index that its release names as it is."""
    index = next((one for one in signatures.indexes if one.file == file), None)
    release = signatures.release_of(index) if index else None
    if index is None or release is None:
        raise _BrokenError("what signed it is not told")
    if (index.sha256, index.size) not in _named(release, index, read):
        raise _BrokenError(f"the release of {release.source} has another {index.path}")
    packed = read(index.file)
    if packed is None:
        raise _BrokenError(f"{index.path} of {release.source} is not here")
    text = _unpacked(packed)
    if len(text) != index.size or sha256(text).hexdigest() != index.sha256:
        raise _BrokenError(f"{index.path} of {release.source} is not the one that is signed")
    return text


def _named(
    release: SignedRelease, index: SignedIndex, read: Callable[[str], bytes | None]
) -> set[tuple[str, int]]:
    data = read(release.text)
    if data is None:
        raise _BrokenError(f"the release of {release.source} is not here")
    try:
        text = signed_text(data, has_signature=not release.signature)
    except ValueError as error:
        raise _BrokenError(f"the release of {release.source} cannot be read: {error}") from error
    return {(digest, size) for path, digest, size in _digests(text) if path == index.path}


def _digests(release: str) -> Iterator[tuple[str, str, int]]:
    is_ours = False
    for line in release.split("\n"):
        if line[:1] not in {" ", "\t"}:
            is_ours = line.strip().lower() == "sha256:"
            continue
        row = line.split()
        if is_ours and len(row) == _ROW and row[1].isdecimal():
            yield row[2].removeprefix("./"), row[0].lower(), int(row[1])


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    try:
        text = unpacking.decompress(packed, LARGEST)
    except zlib.error as error:
        raise _BrokenError(f"an index cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise _BrokenError("an index is cut short, or larger than any that is looked at")
    return text


def _fault(package: KeptPackage, index: bytes) -> str:
    """An index has tens of thousands of records, and few of them are asked for."""
    expected = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        "Size": str(package.size),
    }
    for record in _records(index, package.sha256):
        wrong = [name for name, value in expected.items() if record.get(name) != value]
        if not wrong:
            return ""
    return "the signed index has no such package with this digest"


def _records(index: bytes, digest: str) -> Iterator[Mapping[str, str]]:
    wanted = f"\nSHA256: {digest}".encode()
    at = index.find(wanted)
    while at >= 0:
        start = index.rfind(_STANZA_END, 0, at) + 1
        end = index.find(_STANZA_END, at)
        stanza = index[start : end if end >= 0 else len(index)]
        yield next(stanzas(stanza.decode("utf-8", "replace")), {})
        at = index.find(wanted, at + 1)
