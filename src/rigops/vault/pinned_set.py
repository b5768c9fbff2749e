"""The exact packages that a host was proven with, and the two texts about them in its vault. Pure.

The record lies beside the packages, so it says where they are, and never whether they are the
right ones: digests count only from the lockfile. From the `Packages` file apt learns of the
packages. Its digest is in the lockfile with theirs, so the same packages have to give the same text
for ever, the description included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Annotated, Final

from rigops import json_fields
from rigops.catalog.model import ModuleFlavor
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.json_dataclass import NAME, Time, from_json, to_json
from rigops.json_fields import Fields
from rigops.probe.package_names import RUN_FILE, is_driver

FOLDER: Final = "/var/lib/rigops/vault"
RECORD: Final = f"{FOLDER}/vault.json"
POOL: Final = f"{FOLDER}/pool"
SOURCE: Final = "/etc/apt/sources.list.d/rigops-vault.list"  # only while a run installs from it
SCHEMA: Final = "rigops.vault/1"
RUN_FILE_PREFIX: Final = "NVIDIA-Linux-x86_64-"  # NVIDIA's name of a .run file: this, VERSION.run

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_-]*\.(?:deb|run)")
_FIELD = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):[ \t]*(?P<value>.*)")
# Fields that apt needs to install them. Descriptions and the like would be most of the text.
_FIELDS: Final = (
    "Package", "Version", "Architecture", "Multi-Arch", "Source", "Essential", "Priority",
    "Section", "Installed-Size", "Pre-Depends", "Depends", "Recommends", "Conflicts", "Breaks",
    "Replaces", "Provides", "Enhances",
)  # fmt: skip
TESTED = re.compile(r"tested up to Linux (?P<release>[0-9]+(?:\.[0-9]+)*)")
_SHORT: Final = 12
_MOST_SETS: Final = 2  # the driver proven last, and the one before it


def _digest(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not _DIGEST.fullmatch(value):
        raise fields.wrong(name, value, "a SHA-256 in small hexadecimal digits")
    return value


Digest = Annotated[str, _digest]


@dataclass(frozen=True)
class PinnedPackage:
    name: str
    version: str
    architecture: str
    sha256: Digest
    size: int

    @property
    def file(self) -> str:
        """In the pool; without the epoch, as in the archives of distributions."""
        if self.name == RUN_FILE:
            return f"{RUN_FILE_PREFIX}{self.version}.run"
        version = self.version.partition(":")[2] or self.version
        return f"{self.name}_{version}_{self.architecture}.deb"


def _packages(fields: Fields, name: str) -> tuple[PinnedPackage, ...]:
    found = []
    for entry in fields.each(name):
        package = from_json(PinnedPackage, entry)
        if not _FILE.fullmatch(package.file):
            raise entry.wrong("name", package.file, "the name of a package")
        found.append(package)
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class PinnedSet:
    """`index`: the digest of the `Packages` file."""

    version: str  # NVIDIA's
    flavor: ModuleFlavor = field(metadata={NAME: "flavour"})
    at: Time
    kernel: str
    index: Digest
    packages: Annotated[tuple[PinnedPackage, ...], _packages]

    @property
    def index_file(self) -> str:
        return f"{FOLDER}/{self.index[:_SHORT]}.packages"

    @property
    def size(self) -> int:
        return sum(one.size for one in self.packages)

    @property
    def digests(self) -> frozenset[str]:
        """Of all files that installing it takes."""
        return frozenset((self.index, *(one.sha256 for one in self.packages)))

    def is_same(self, other: PinnedSet) -> bool:
        """The same packages, whenever and under whichever kernel they were proven."""
        return replace(other, at=self.at, kernel=self.kernel) == self

    def has_driver_of(self, other: PinnedSet) -> bool:
        """The same driver, whatever is stored beside it: that has other versions later."""
        mine, its = (
            {one for one in every.packages if is_driver(one.name)} for every in (self, other)
        )
        return self.flavor == other.flavor and mine == its


def parse(text: str | None) -> tuple[PinnedSet, ...]:
    """The set proven last comes first. None of a record that is unreadable."""
    if text is None:
        return ()
    try:
        fields = json_fields.parse(text, place=RECORD)
        fields.require_schema(SCHEMA)
        return tuple(from_json(PinnedSet, one) for one in fields.each("sets"))
    except RigopsError:
        return ()


def document(sets: Iterable[PinnedSet]) -> str:
    return json.dumps({"schema": SCHEMA, "sets": [set_json(one) for one in sets]}, indent=1) + "\n"


def with_proven(sets: Iterable[PinnedSet], proven: PinnedSet) -> tuple[PinnedSet, ...]:
    """The sets after this proof. Where the same one was proven last, it stays with its time."""
    before = tuple(sets)
    return before if before and before[0].is_same(proven) else merged((proven,), before)


def merged(new: Iterable[PinnedSet], before: Iterable[PinnedSet]) -> tuple[PinnedSet, ...]:
    """The new sets, then as many of those of other drivers as a host has in its vault."""
    newer = tuple(new)
    older = (one for one in before if not any(one.has_driver_of(its) for its in newer))
    return (*newer, *older)[:_MOST_SETS]


def set_json(one: PinnedSet) -> dict[str, object]:
    packages = [{**vars(its), "file": f"pool/{its.file}"} for its in one.packages]
    return {**to_json(one), "packages": packages}


def stanzas(text: str) -> Iterator[Mapping[str, str]]:
    """The records of a text of control fields, their lines joined."""
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        record: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            shape = _FIELD.fullmatch(line)
            if shape:
                name = shape["name"]
                record[name] = shape["value"].strip()
            elif name and line[:1] in {" ", "\t"}:
                record[name] = f"{record[name]} {line.strip()}"
        if record:
            yield record


def index_text(records: Iterable[tuple[PinnedPackage, Mapping[str, str]]]) -> str:
    every = sorted(records, key=lambda one: (one[0].name, one[0].architecture, one[0].version))
    return "\n".join(_stanza(package, record) for package, record in every)


def index_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _stanza(package: PinnedPackage, record: Mapping[str, str]) -> str:
    fields = {name: record[name] for name in _FIELDS if record.get(name)}
    tested = TESTED.search(record.get("Description", ""))
    fields |= {
        "Filename": f"./pool/{package.file}",
        "Size": str(package.size),
        "SHA256": package.sha256,
        "Description": f"kept by rigops{f', {tested[0]}' if tested else ''}",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())
