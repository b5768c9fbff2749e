"""Sets of packages that a host was proven with, and the document that it keeps of them. Pure.

The document stands beside the packages, so it says where they are and never whether they are the
right ones: that is for the lock on the controller to say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.errors import RigopsError
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.catalog.model import Flavour
    from rigops.json_fields import Fields

FOLDER: Final = "/var/lib/rigops/vault"
RECORD: Final = f"{FOLDER}/vault.json"
POOL: Final = f"{FOLDER}/pool"
SOURCE: Final = "/etc/apt/sources.list.d/rigops-vault.list"  # only while a run installs from it
SCHEMA: Final = "rigops.vault/1"
CALLED: Final = "NVIDIA-Linux-x86_64-"  # and a version, by NVIDIA, a .run file
KEPT: Final = 2  # sets: what is proven now, and what was before it

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_-]*\.(?:deb|run)")
_SHORT: Final = 12


@dataclass(frozen=True)
class KeptPackage:
    name: str
    version: str
    architecture: str
    sha256: str
    size: int

    @property
    def file(self) -> str:
        """In the pool; without the epoch, as in the archives of distributions."""
        if self.name == RUN_FILE:
            return f"{CALLED}{self.version}.run"
        version = self.version.partition(":")[2] or self.version
        return f"{self.name}_{version}_{self.architecture}.deb"


@dataclass(frozen=True, kw_only=True)
class KeptSet:
    """`index`: the digest of the text that tells apt of these packages."""

    version: str  # NVIDIA's
    flavour: Flavour
    at: str
    kernel: str
    packages: tuple[KeptPackage, ...]
    index: str

    @property
    def index_file(self) -> str:
        return f"{FOLDER}/{self.index[:_SHORT]}.packages"

    @property
    def signatures_file(self) -> str:
        """Who signed them."""
        return f"{FOLDER}/{self.index[:_SHORT]}.signatures"

    @property
    def size(self) -> int:
        return sum(one.size for one in self.packages)

    def is_same(self, other: KeptSet) -> bool:
        """The same packages, whenever and under whichever kernel they were proven."""
        return replace(other, at=self.at, kernel=self.kernel) == self


def kept(text: str | None) -> tuple[KeptSet, ...]:
    """The sets, that which was proven last first. A document that cannot be read tells of none."""
    if text is None:
        return ()
    try:
        fields = json_fields.parse(text, place=RECORD)
        fields.require_schema(SCHEMA)
        return tuple(set_of(one) for one in fields.each("sets"))
    except RigopsError:
        return ()


def document(sets: Iterable[KeptSet]) -> str:
    return json.dumps({"schema": SCHEMA, "sets": [set_json(one) for one in sets]}, indent=1) + "\n"


def with_proven(sets: Iterable[KeptSet], proven: KeptSet) -> tuple[KeptSet, ...]:
    """As they are once this one has been proven. What is as it was stays, its time too."""
    before = tuple(sets)
    if before and before[0].is_same(proven):
        return before
    return (proven, *(one for one in before if not one.is_same(proven)))[:KEPT]


def set_json(one: KeptSet) -> dict[str, object]:
    return {
        "version": one.version,
        "flavour": one.flavour,
        "at": one.at,
        "kernel": one.kernel,
        "index": one.index,
        "packages": [
            {
                "name": its.name,
                "version": its.version,
                "architecture": its.architecture,
                "sha256": its.sha256,
                "size": its.size,
                "file": f"pool/{its.file}",
            }
            for its in one.packages
        ],
    }


def set_of(fields: Fields) -> KeptSet:
    return KeptSet(
        version=fields.text("version"),
        flavour="open" if fields.text("flavour") == "open" else "proprietary",
        at=fields.time("at"),
        kernel=fields.text("kernel"),
        index=_digest(fields, "index"),
        packages=tuple(_package(one) for one in fields.each("packages")),
    )


def _package(fields: Fields) -> KeptPackage:
    found = KeptPackage(
        name=fields.text("name"),
        version=fields.text("version"),
        architecture=fields.text("architecture"),
        sha256=_digest(fields, "sha256"),
        size=int(fields.number("size")),
    )
    if not _FILE.fullmatch(found.file):
        raise fields.wrong("name", found.file, "the name of a package")
    return found


def _digest(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not _DIGEST.fullmatch(value):
        raise fields.wrong(name, value, "a SHA-256 in small hexadecimal digits")
    return value
