"""What apt told of the driver's packages and of its sources. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TYPE_CHECKING

from rigops.driver import sources
from rigops.driver.offers import Offer, Offers, Origin, relations
from rigops.facts.dpkg_versions import compare
from rigops.probe.text import blocks, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rigops.driver.sources import Release, Releases, Source

_FILE = "file "
_FIELD = re.compile(r"(?P<name>[A-Za-z-]+): ?(?P<value>.*)")
_PRIORITY = re.compile(r"-?[0-9]+ (?P<index>\S.*)")
_INDEX = re.compile(r"(?P<uri>\S.*?)/* (?P<suite>\S+)/[^/\s]+(?: \S+)? Packages")
_FLAT = re.compile(r"(?P<uri>\S+?)/* (?P<suite>\S*?)/* Packages")  # all of it is one suite
_RELEASE = re.compile(r"(?:^|,)(?P<key>[a-z])=(?P<value>[^,]*)")
_WORDS_OF_A_PLACE = 3


@dataclass(frozen=True)
class Offered:
    """`trouble`: apt's lines about the source that was tried. No lists: apt never looked at any."""

    offers: Offers = field(default_factory=Offers)
    sources: tuple[Source, ...] = ()
    trouble: tuple[str, ...] = ()
    has_lists: bool = True


def parse(text: str) -> Offered:
    found = blocks(text)
    files = {
        head.removeprefix(_FILE): body for head, body in found.items() if head.startswith(_FILE)
    }
    releases = _releases(found.get("releases", ""))
    places = _places(found.get("places", ""), releases)
    offers, unread = _offers(found.get("records", ""), places)
    return Offered(
        offers=Offers(offers, unread=(*sources.unread(files), *unread)),
        sources=sources.parse(files, releases),
        trouble=tuple(line for line in lines(found.get("trouble", "")) if line.strip()),
        has_lists=found.get("lists", "1").strip() != "0",
    )


@dataclass(frozen=True)
class _Where:
    places: dict[str, None] = field(default_factory=dict)
    origins: dict[Origin, None] = field(default_factory=dict)


def _places(text: str, releases: Releases) -> Mapping[tuple[str, str], _Where]:
    found: dict[tuple[str, str], _Where] = defaultdict(_Where)
    for line in lines(text):
        words = line.split(maxsplit=_WORDS_OF_A_PLACE)
        if len(words) < _WORDS_OF_A_PLACE:
            continue
        where = found[words[0], words[1]]
        where.places[words[2]] = None
        if shape := _index("".join(words[_WORDS_OF_A_PLACE:]).rstrip()):
            release = releases.get((shape["uri"], shape["suite"]))
            where.origins[Origin(shape["uri"], release.origin if release else "")] = None
    return found


def _offers(
    text: str, places: Mapping[tuple[str, str], _Where]
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """What is installed and in no source any more has no place, and is no offer."""
    found: dict[tuple[str, str], Offer] = {}
    unread: list[str] = []
    for record in _records(text):
        key = (record.get("Package", ""), record.get("Version", ""))
        if not all(key):
            unread.append(str(record))
        elif key in places:
            found.setdefault(key, _offer(record, places[key]))
    by_version = cmp_to_key(compare)
    every = sorted(found.values(), key=lambda one: (one.name, by_version(one.version)))
    return tuple(every), tuple(unread)


def _offer(record: Mapping[str, str], where: _Where) -> Offer:
    needs = (record.get("Pre-Depends", ""), record.get("Depends", ""))
    return Offer(
        name=record["Package"],
        version=record["Version"],
        source=(record.get("Source", "").split() or [record["Package"]])[0],
        depends=tuple(one for field in needs for one in relations(field)),
        provides=tuple(one[0] for one in relations(record.get("Provides", ""))),
        newest_kernel=record.get("Tested", ""),
        places=tuple(where.places),
        origins=tuple(where.origins),
    )


def _records(text: str) -> Iterator[Mapping[str, str]]:
    for stanza in re.split(r"\n{2,}", "\n".join(lines(text)).strip("\n")):
        record: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            shape = _FIELD.fullmatch(line)
            if shape:
                name = shape["name"]
                record[name] = shape["value"].strip()
            elif name:
                record[name] += f" {line.strip()}"
        if record:
            yield record


def _releases(text: str) -> Releases:
    """Who made which suite, from what `apt-cache policy` says of all."""
    found: Releases = {}
    at: tuple[str, str] | None = None
    for line in lines(text):
        named = _PRIORITY.fullmatch(line.strip())
        if named and (index := _index(named["index"])):
            at = (index["uri"], index["suite"])
        elif at and line.strip().startswith("release "):
            release = _release(line.strip().removeprefix("release "))
            if release:
                found[at] = release
            at = None
    return found


def _index(text: str) -> re.Match[str] | None:
    """A list of packages is called the same wherever apt speaks of it."""
    return _INDEX.fullmatch(text) or _FLAT.fullmatch(text)


def _release(text: str) -> Release | None:
    said = {one["key"]: one["value"].strip() for one in _RELEASE.finditer(text)}
    return sources.Release(said["o"], said.get("n", "")) if said.get("o") else None
