"""Who signed the kept packages: which index names each, and which release names that. Pure.

It stands beside the packages and vouches for nothing by itself: the lock's digests decide what is
installed. With it, what an archive once signed can be looked at after that archive is gone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.errors import RigopsError
from rigops.vault.kept import FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rigops.json_fields import Fields
    from rigops.vault.kept import KeptPackage

SCHEMA: Final = "rigops.signatures/1"
LISTS: Final = f"{FOLDER}/lists"  # each file of it named for its SHA-256

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class SignedRelease:
    """An InRelease file, or a Release file and its signature apart; both by their digests."""

    text: str
    signature: str = ""
    source: str = ""
    keyring: str = ""  # of the host, that has the key; empty: nobody there could say
    keys: tuple[str, ...] = ()  # fingerprints
    said: tuple[str, ...] = ()  # by gpgv

    @property
    def files(self) -> tuple[str, ...]:
        return (self.text, self.signature) if self.signature else (self.text,)


@dataclass(frozen=True, kw_only=True)
class SignedIndex:
    """A `Packages` file: kept packed with gzip as `file`; the release has `sha256` and `size`."""

    file: str
    path: str
    sha256: str
    size: int
    release: str  # its text


@dataclass(frozen=True)
class Signatures:
    """`packages`: the index by the digest of the package. Others are signed by nobody."""

    releases: tuple[SignedRelease, ...] = ()
    indexes: tuple[SignedIndex, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        return (
            *(file for one in self.releases for file in one.files),
            *(one.file for one in self.indexes),
        )

    def index_of(self, package: str) -> SignedIndex | None:
        file = self.packages.get(package)
        return next((one for one in self.indexes if one.file == file), None)

    def release_of(self, index: SignedIndex) -> SignedRelease | None:
        return next((one for one in self.releases if one.text == index.release), None)

    def signer_of(self, package: str) -> SignedRelease | None:
        index = self.index_of(package)
        return self.release_of(index) if index else None

    def has_signer(self, package: str, there: Collection[str]) -> bool:
        """Whether somebody who is known signed it, by files that are there."""
        index, release = self.index_of(package), self.signer_of(package)
        return bool(
            index and release and release.keyring and there_are((index.file, *release.files), there)
        )


def there_are(files: Iterable[str], there: Collection[str]) -> bool:
    return all(file in there for file in files)


def chosen(
    packages: Iterable[KeptPackage], told: Iterable[Signatures], there: Collection[str]
) -> Signatures:
    """Of what was told of these packages, earlier things first, what can be looked at.

    A signer that is known comes before one that is not.
    """
    every = tuple(told)
    releases: dict[str, SignedRelease] = {}
    indexes: dict[str, SignedIndex] = {}
    found: dict[str, str] = {}
    for digest in (one.sha256 for one in packages):
        good = (one for one in every if one.has_signer(digest, there))
        some = (one for one in every if _is_there(one, digest, there))
        best = next(good, None) or next(some, None)
        index = best.index_of(digest) if best else None
        release = best.release_of(index) if best and index else None
        if index and release:
            found[digest] = index.file
            indexes[index.file] = index
            releases[release.text] = release
    return Signatures(tuple(releases.values()), tuple(indexes.values()), found)


def _is_there(one: Signatures, package: str, there: Collection[str]) -> bool:
    index, release = one.index_of(package), one.signer_of(package)
    return bool(index and release and there_are((index.file, *release.files), there))


def document(signatures: Signatures, packages: Iterable[KeptPackage]) -> str:
    told = {
        "schema": SCHEMA,
        "packages": [
            {
                "file": f"pool/{one.file}",
                "sha256": one.sha256,
                "index": signatures.packages.get(one.sha256, ""),
                "signer": _signer(signatures, one),
            }
            for one in packages
        ],
        "indexes": [
            {
                "file": one.file,
                "path": one.path,
                "sha256": one.sha256,
                "size": one.size,
                "release": one.release,
            }
            for one in signatures.indexes
        ],
        "releases": [
            {
                "text": one.text,
                "signature": one.signature,
                "source": one.source,
                "keyring": one.keyring,
                "keys": list(one.keys),
                "said": list(one.said),
            }
            for one in signatures.releases
        ],
    }
    return json.dumps(told, indent=1) + "\n"


def read(text: str) -> Signatures:
    """A document that cannot be read tells of nobody."""
    try:
        fields = json_fields.parse(text, place=LISTS)
        fields.require_schema(SCHEMA)
        return Signatures(
            tuple(_release(one) for one in fields.each("releases")),
            tuple(_index(one) for one in fields.each("indexes")),
            {
                _digest(one, "sha256"): _digest(one, "index")
                for one in fields.each("packages")
                if one.text("index")
            },
        )
    except RigopsError:
        return Signatures()


def _signer(signatures: Signatures, package: KeptPackage) -> str:
    release = signatures.signer_of(package.sha256)
    if release is None:
        return "not signed by anybody"
    return release.keyring or "somebody whose key is not known"


def _release(fields: Fields) -> SignedRelease:
    return SignedRelease(
        text=_digest(fields, "text"),
        signature=_digest(fields, "signature") if fields.text("signature") else "",
        source=fields.text("source"),
        keyring=fields.text("keyring"),
        keys=fields.texts("keys"),
        said=fields.texts("said"),
    )


def _index(fields: Fields) -> SignedIndex:
    return SignedIndex(
        file=_digest(fields, "file"),
        path=fields.text("path"),
        sha256=_digest(fields, "sha256"),
        size=int(fields.number("size")),
        release=_digest(fields, "release"),
    )


def _digest(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not _DIGEST.fullmatch(value):
        raise fields.wrong(name, value, "a SHA-256 in small hexadecimal digits")
    return value
