"""The pinned sets of a host: what its vault and this machine's store have of them. Pure.

Digests count only from the lockfile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers, in_order, offer_of
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.dataclass import dataclass
from rigops.packages.request import few
from rigops.probe.package_names import is_driver
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines
from rigops.vault.directory import Directory
from rigops.vault.pinned_set import (
    FOLDER,
    POOL,
    TESTED,
    PinnedPackage,
    PinnedSet,
    index_digest,
    stanzas,
)
from rigops.vault.store import Store

PLACE: Final = "vault"  # as printed

_FILES: Final = "pool"
_INDEX: Final = "index "
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<file>[^/]+\.(?:deb|run))")
_LONGEST_S: Final = 300  # reading two drivers from a slow disk


@dataclass(frozen=True)
class Pool:
    """Of the host's vault: digests by the names of files, and texts of Packages files."""

    digests: Mapping[str, str] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()


def parse(text: str) -> Pool:
    found = blocks(text)
    shapes = map(_LINE.fullmatch, lines(found.get(_FILES, "")))
    return Pool(
        digests={shape["file"]: shape["digest"] for shape in shapes if shape},
        indexes=tuple(
            f"{body.strip(chr(10))}\n" for head, body in found.items() if head.startswith(_INDEX)
        ),
    )


SECTION: Final = Section(
    name="driver-vault",
    snippet=f"""
if cd {POOL} 2>/dev/null; then
    block "{_FILES}"
    for file in *.deb *.run; do
        [ ! -f "$file" ] || [ -L "$file" ] || sha256sum "$file"
    done
    for index in {FOLDER}/*.packages; do
        [ -f "$index" ] || continue
        block "{_INDEX}$index"; head -c 1000000 "$index"
    done
fi
return 0
""",
    parse=parse,
    timeout_s=_LONGEST_S,
    wants_root=True,
)


@dataclass(frozen=True, kw_only=True)
class VaultContents:
    """The store on this machine has `indexes`, texts by their digests, and `stored` packages."""

    pool: Pool = field(default_factory=Pool)
    indexes: Mapping[str, str] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AvailableSet:
    """A set of which every file is on the host, or in `origin` on this machine."""

    version: str
    packages: tuple[PinnedPackage, ...]
    index: str  # text of the Packages file
    origin: Store | Directory


def contents_of(store: Store, sets: Iterable[PinnedSet], pool: Pool) -> VaultContents:
    every = tuple(sets)
    texts = {one.index: store.text(one.index) for one in every}
    return VaultContents(
        pool=pool,
        indexes={digest: text for digest, text in texts.items() if text is not None},
        stored=frozenset(
            its.sha256 for one in every for its in one.packages if store.has(its.sha256, its.size)
        ),
    )


def available(
    contents: VaultContents, store: Store, sets: Iterable[PinnedSet]
) -> tuple[list[AvailableSet], list[Blocker]]:
    """Those of these sets of which every file exists, and why the others are not available."""
    found: list[AvailableSet] = []
    blockers: list[Blocker] = []
    for one in sets:
        text = contents.indexes.get(one.index)
        if text is None:
            on_host = (it for it in contents.pool.indexes if index_digest(it) == one.index)
            text = next(on_host, None)
        digests = contents.pool.digests
        lost = [
            its.file
            for its in one.packages
            if digests.get(its.file) != its.sha256 and its.sha256 not in contents.stored
        ]
        if text is None or lost:
            what = few(lost) or "the Packages file of its packages"
            blockers.append(
                Blocker(
                    f"driver {one.version} was proven here, but {what} is neither in {FOLDER} nor "
                    f"in {store.folder}",
                    "declare the vault of another controller or of a backup (rigops_vault)",
                )
            )
        else:
            found.append(AvailableSet(one.version, one.packages, text, store))
    return found, blockers


def clash(pool: Pool, packages: Iterable[PinnedPackage]) -> Blocker | None:
    """A package in the host's vault that has the name of one of these, and other content."""
    for one, there in _others(pool, packages):
        return Blocker(
            f"{POOL}/{one.file} is another build of {one.name} {one.version} than the declared "
            f"one: its digest is {there}, that of the declared one {one.sha256}",
            "declare the one in the vault, or remove it there",
        )
    return None


def tampered(pool: Pool, sets: Iterable[PinnedSet]) -> Blocker | None:
    """The first package in the host's vault that has another digest than in the lockfile."""
    for its, there in _others(pool, (its for one in sets for its in one.packages)):
        return Blocker(
            f"{POOL}/{its.file} is not the package {its.name} {its.version} that was proven: "
            f"its digest in the lockfile is {its.sha256}, on the host {there}",
            "find out how it was changed; then remove it there, and this machine sends its own",
        )
    return None


def _others(pool: Pool, packages: Iterable[PinnedPackage]) -> Iterator[tuple[PinnedPackage, str]]:
    for one in packages:
        there = pool.digests.get(one.file, one.sha256)
        if there != one.sha256:
            yield one, there


def offers(*indexes: str, place: str = PLACE) -> Offers:
    """The packages of these Packages files. `place`: where they are, as printed."""
    found: dict[tuple[str, str], Offer] = {}
    for record in (record for text in indexes for record in stanzas(text)):
        tested = TESTED.search(record.get("Description", ""))
        one = offer_of(record, tested["release"] if tested else "", (place,))
        found[one.name, one.version] = one
    return in_order(found.values())


def is_installed(one: PinnedSet, installed: Mapping[str, str]) -> bool:
    """By the packages of it that belong to the driver."""
    return all(
        installed.get(its.name) == its.version for its in one.packages if is_driver(its.name)
    )
