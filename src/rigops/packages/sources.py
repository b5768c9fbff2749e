"""Where a host's apt gets packages from, and what its own sources lack for drivers. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.sections.os_release import OsRelease

FILE: Final = "/etc/apt/sources.list.d/rigops-driver.sources"
HIDDEN: Final = "***"  # a secret that did not leave the host

_FIELD = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):(?P<value>.*)")
_ONE_LINE = re.compile(
    r"(?P<type>deb|deb-src)[ \t]+(?:\[(?P<options>[^]]*)\][ \t]*)?"
    r"(?P<uri>cdrom:\[[^]]*\]\S*|\S+)[ \t]+(?P<suite>\S+)(?P<components>.*)"
)
_OPTION = re.compile(r"(?P<name>[a-z][a-z-]*?)(?P<how>[+-]?)=(?P<value>.*)")
_SPELLED = {
    "arch": "Architectures", "lang": "Languages", "target": "Targets", "pdiffs": "PDiffs",
}  # fmt: skip
_ADDED = {"": "", "+": "-Add", "-": "-Remove"}
_OF_SNAPSHOTS = frozenset({"snapshot", "check-valid-until"})
_STRUCTURE = frozenset({"types", "uris", "suites", "components", "enabled"})
_NO = frozenset({"no", "false", "without", "off", "disable", "0"})
_FIRST_WITH_FIRMWARE_APART = 12


@dataclass(frozen=True)
class Release:
    """From the Release file of a suite."""

    origin: str
    codename: str = ""


@dataclass(frozen=True)
class Source:
    """One stanza, or one line of the older kind in the words of a stanza."""

    types: tuple[str, ...]
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    file: str = ""
    enabled: bool = True
    releases: Mapping[str, Release] = field(default_factory=dict)  # by suite, where apt has it


Releases = dict[tuple[str, str], Release]  # by URI and suite


def parse(
    files: Mapping[str, str], releases: Mapping[tuple[str, str], Release] | None = None
) -> tuple[Source, ...]:
    """`files`: their texts by their names."""
    found = (one for file, text in files.items() for one in _read(file, text))
    if releases is None:
        return tuple(found)
    return tuple(
        replace(
            source,
            releases={
                suite: releases[_same(uri), suite.rstrip("/")]
                for suite in source.suites
                for uri in reversed(source.uris)
                if (_same(uri), suite.rstrip("/")) in releases
            },
        )
        for source in found
    )


def uris(text: str) -> tuple[str, ...]:
    """Of all stanzas in this text."""
    return tuple(uri for one in parse({FILE: text}) for uri in one.uris)


def with_components(sources: Iterable[Source], distribution: OsRelease) -> str | None:
    """The text of a file of sources that brings what the distribution's own do not have of it.

    None: nothing is missing, or its own ones cannot be recognized, or they hold a secret.
    """
    needed = _needed(distribution)
    active = [one for one in sources if _counts(one)]
    is_own = _Own(distribution, active)
    had: dict[str, set[str]] = defaultdict(set)
    for one in active:
        for suite in filter(lambda suite: is_own(one, suite), one.suites):
            had[suite].update(one.components)
    stanzas: list[str] = []
    for one in active:
        if "main" not in one.components or HIDDEN in str((one.uris, one.options)):
            continue
        lacking: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for suite in filter(lambda suite: is_own(one, suite), one.suites):
            missing = tuple(name for name in needed if name not in had[suite])
            lacking[missing].append(suite)
            had[suite].update(missing)
        for missing, suites in lacking.items():
            if missing:
                stanzas.append(_stanza(one, suites, missing))
    return "\n".join(stanzas) or None


def for_snapshots(sources: Iterable[Source], distribution: OsRelease) -> tuple[Source, ...]:
    """The distribution's own suites as they are configured here, with all that drivers are in."""
    needed = _needed(distribution)
    active = [one for one in sources if _counts(one)]
    is_own = _Own(distribution, active)
    had: set[str] = set()
    found: list[Source] = []
    for one in active:
        if not needed or "main" not in one.components or HIDDEN in str((one.uris, one.options)):
            continue
        names = (is_own.codename(one, suite) for suite in one.suites if is_own(one, suite))
        suites = tuple(name for name in dict.fromkeys(names) if name not in had)
        had.update(suites)
        if suites:
            options = tuple(pair for pair in one.options if pair[0].lower() not in _OF_SNAPSHOTS)
            found.append(replace(one, suites=suites, components=("main", *needed), options=options))
    return tuple(found)


def asking(source: Source, day: str) -> str:
    """A stanza that has apt look for the snapshot of that day; an older apt reads past it."""
    return _stanza(source, source.suites, source.components) + f"Snapshot: {day}\n"


def of_snapshot(
    asked: Sequence[Source], day: str, found: Sequence[Mapping[str, Sequence[str]]]
) -> str | None:
    """The text of a file of sources. None: not of every suite apt found the snapshot of that day.

    `found`: for each of those asked for, the URIs that apt would take its suites from. They are
    written down: where a stanza with `Snapshot` comes before the host's own of the same suite, apt
    takes them for a contradiction and reads no source at all. The time that a snapshot was signed
    for is over, as it is meant to be.
    """
    stanzas: list[str] = []
    if len(asked) != len(found):
        return None
    for source, its in zip(asked, found, strict=True):
        own = set(map(_same, source.uris))
        by_uris: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for suite in source.suites:
            # apt names the host's own beside them, and an older one nothing else.
            uris = (one for one in its.get(suite, ()) if day in one and _same(one) not in own)
            by_uris[tuple(uris)].append(suite)
        if () in by_uris:
            return None
        for those, suites in by_uris.items():
            stanza = _stanza(replace(source, uris=those), suites, source.components)
            stanzas.append(f"{stanza}Check-Valid-Until: no\n")
    return "\n".join(stanzas) or None


def deb822(fields: Sequence[tuple[str, str]]) -> str:
    """A stanza of these fields."""
    named = {name.lower() for name, _ in fields}
    whole = [*([] if "types" in named else [("Types", "deb")]), *fields]
    return "".join(f"{name}:{_folded(value)}\n" for name, value in whole)


def _folded(value: str) -> str:
    first, *rest = value.strip().splitlines() or [""]
    if not rest:
        return f" {first}".rstrip()
    return "\n".join(["", *(f" {line.rstrip() or '.'}" for line in (first, *rest))])


def _stanza(source: Source, suites: Sequence[str], components: Sequence[str]) -> str:
    words = (("URIs", source.uris), ("Suites", suites), ("Components", components))
    return deb822([*((name, " ".join(its)) for name, its in words), *source.options])


def _counts(source: Source) -> bool:
    on_disc = any(uri.startswith("cdrom:") for uri in source.uris)
    return source.enabled and "deb" in source.types and source.file != FILE and not on_disc


def _needed(distribution: OsRelease) -> tuple[str, ...]:
    if distribution.id == "ubuntu":
        return ("restricted",)
    if distribution.id != "debian":
        return ()
    major = whole((distribution.version_id or "").partition(".")[0])
    is_old = major is not None and major < _FIRST_WITH_FIRMWARE_APART
    return ("contrib", "non-free", *([] if is_old else ["non-free-firmware"]))


class _Own:
    """Whether a suite is this release of the distribution: others too name theirs `bookworm`."""

    def __init__(self, distribution: OsRelease, sources: Iterable[Source]) -> None:
        name = distribution.codename
        kin = ("", "-updates", "-security", "/updates")
        self._origin = distribution.id
        self._family = {f"{name}{suffix}" for suffix in kin} if name else set()
        served: dict[str, set[str]] = defaultdict(set)
        for one in sources:
            for uri in one.uris:
                served[_same(uri)].update(
                    suite
                    for suite in one.suites
                    if suite in self._family and suite not in one.releases
                )
        # Others have no more than the release itself.
        serving = {uri: suites for uri, suites in served.items() if suites}
        several = {uri for uri, suites in serving.items() if suites != {name}}
        self._uris = several or (set(serving) if len(serving) == 1 else set())

    def __call__(self, source: Source, suite: str) -> bool:
        release = source.releases.get(suite)
        if release:
            return release.origin.lower() == self._origin and release.codename in self._family
        return suite in self._family and any(_same(uri) in self._uris for uri in source.uris)

    def codename(self, source: Source, suite: str) -> str:
        """`stable` was another release on another day."""
        release = source.releases.get(suite)
        return release.codename if release and suite not in self._family else suite


def _same(uri: str) -> str:
    return uri.rstrip("/")


def _read(file: str, text: str) -> Iterator[Source]:
    if file.endswith(".sources"):
        yield from _stanzas(file, text)
        return
    for line in text.splitlines():
        if shape := _ONE_LINE.fullmatch(line.partition("#")[0].strip()):
            yield _of_line(file, shape)


def _of_line(file: str, shape: re.Match[str]) -> Source:
    options: list[tuple[str, str]] = []
    for one in map(_OPTION.fullmatch, (shape["options"] or "").split()):
        if one:
            name = _SPELLED.get(one["name"]) or one["name"].title()
            options.append((name + _ADDED[one["how"]], one["value"].replace(",", " ")))
    return Source(
        types=(shape["type"],),
        uris=(shape["uri"],),
        suites=(shape["suite"],),
        components=tuple(shape["components"].split()),
        options=tuple(options),
        file=file,
    )


def _stanzas(file: str, text: str) -> Iterator[Source]:
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines).strip("\n")):
        fields = _fields(stanza)
        types, uris, suites, components = (
            tuple(fields.get(name, ("", ""))[1].split())
            for name in ("types", "uris", "suites", "components")
        )
        if not (types and uris and suites):
            continue
        options = (
            spelled
            for name, spelled in fields.items()
            if name not in _STRUCTURE and not name.startswith(("x-", "description"))
        )
        is_enabled = fields.get("enabled", ("", ""))[1].lower() not in _NO
        yield Source(types, uris, suites, components, tuple(options), file, is_enabled)


def _fields(stanza: str) -> dict[str, tuple[str, str]]:
    """By their names in small letters: how those are spelled, and the values not indented."""
    found: dict[str, tuple[str, list[str]]] = {}
    current: list[str] = []
    for line in stanza.split("\n"):
        shape = _FIELD.fullmatch(line)
        if shape:
            current = [shape["value"].strip()]
            found[shape["name"].lower()] = (shape["name"], current)
        elif line[:1] in {" ", "\t"}:
            current.append("" if line.strip() == "." else line.strip())
    return {name: (spelled, "\n".join(value).strip()) for name, (spelled, value) in found.items()}
