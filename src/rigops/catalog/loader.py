"""The catalog from its files: one TOML file per table, read when first asked for.

A user's file has the same tables. Its entries override those of the same key field by field, or are
new and complete.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from rigops import regular_file
from rigops.catalog import versions
from rigops.catalog.known_lines import KnownLine, SoughtLine, compiled, fault_of
from rigops.catalog.model import (
    ARCHITECTURES,
    EVERY_CARD,
    ContainerToolkit,
    DriverBranch,
    FirmwareSetting,
    Generation,
    Gpu,
    InitCode,
    KernelChange,
    Link,
    NamedCard,
    Xid,
)
from rigops.catalog.reader import Place, Reader, Values, build, shown
from rigops.catalog.stories import StoryRule
from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError

_MOST_BYTES = 4 * 1024 * 1024
SHIPPED = Path(__file__).with_name("data")

# In the standard library from Python 3.11 on. Its ValueErrors name the line.
_TOML = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_LINE = re.compile(r"\(?at line ([0-9]+)")
_AS_OF = "as_of"
_LINEAR = "a regular expression without *, + and {n,}: {0,40} instead"
_SOUGHT = re.compile(
    r"name = .*\nwords = \[(?P<words>.*|\n(?:  .*\n)+)\]\n"
    r"pattern = (?P<quotes>\'\'\'|\')(?P<pattern>.*)(?P=quotes)\n"
)
_LAST_RESORT = "\nlast_resort = true\n"
_NAMES = re.compile(
    r"name = \"(?P<name>.*)\"\naliases = \[(?P<aliases>.*)\]\npci_ids = \[(?P<ids>.*)\]\n"
)
_WORD = re.compile(r"\"([^\"]+)\"")
_CAUSES = re.compile(r"^cause = .*$", re.MULTILINE)

E = TypeVar(
    "E",
    DriverBranch,
    KernelChange,
    Gpu,
    Generation,
    Xid,
    InitCode,
    KnownLine,
    FirmwareSetting,
    ContainerToolkit,
    Link,
    StoryRule,
)


class Table(Generic[E]):
    """One table of the catalog, in a file of the same name, which is read on first use."""

    name: str

    def __init__(self, kind: type[E], key: str) -> None:
        self.kind: type[E] = kind
        self.key = key

    def __set_name__(self, _: type[Catalog], name: str) -> None:
        self.name = name

    def __get__(self, catalog: Catalog, _: type[Catalog]) -> tuple[E, ...]:
        found = catalog.__dict__[self.name] = catalog.entries(self)
        return found


class Row(Generic[E]):
    """A row of a shipped table, which is read on first use: few of many are asked for."""

    def __init__(self, table: Table[E], path: Path, text: str) -> None:
        self._table: Table[E] = table
        self._path, self.text = path, text
        self._entry: E | None = None

    def read(self) -> E:
        if self._entry is None:
            whole = _parsed(self._path, _head(self._table) + self.text)
            (self._entry,) = _merged(self._table, (), whole)
        return self._entry


_DRIVERS = Table(DriverBranch, "branch")
_GPUS = Table(Gpu, "name")
_XIDS = Table(Xid, "number")
_LINES = Table(KnownLine, "name")
_STORIES = Table(StoryRule, "id")


@dataclass(frozen=True)
class Document:
    """A parsed TOML file."""

    file: str
    content: Mapping[str, object]


class Catalog:
    drivers = _DRIVERS
    kernel_changes = Table(KernelChange, "name")
    gpus = _GPUS
    generations = Table(Generation, "name")
    xids = _XIDS
    init_codes = Table(InitCode, "code")
    known_lines = _LINES
    firmware = Table(FirmwareSetting, "setting")
    container_toolkits = Table(ContainerToolkit, "version")
    links = Table(Link, "name")
    stories = _STORIES

    def __init__(self, directory: Path = SHIPPED, additions: Document | None = None) -> None:
        self._directory = directory
        self._additions = additions

    @cached_property
    def as_of(self) -> date:
        """When the entries were last compared with what is published."""
        path = self._directory / f"{_DRIVERS.name}.toml"
        documents = (_parsed(path, _read(path).partition(_head(_DRIVERS))[0]), self._additions)
        return max(_as_of(one) for one in documents if one and _AS_OF in one.content)

    def entries(self, table: Table[E]) -> tuple[E, ...]:
        if self._additions:
            return _merged(table, getattr(_shipped(), table.name), self._additions)
        path = self._directory / f"{table.name}.toml"
        return _merged(table, (), _open(path))

    @property
    def file_of_own_lines(self) -> str:
        """The user's, where it has known lines; or ""."""
        return self._additions.file if self._additions and self._has_own(_LINES) else ""

    def xid(self, number: int) -> Xid | None:
        if self._has_own(_XIDS):
            return next((one for one in self.xids if one.number == number), None)
        row = self._xid_rows.get(f"number = {number}")
        return row.read() if row else None

    @cached_property
    def _xid_rows(self) -> dict[str, Row[Xid]]:
        return {row.text.partition("\n")[0]: row for row in self._rows(_XIDS)}

    @cached_property
    def named_cards(self) -> tuple[NamedCard, ...]:
        if self._has_own(_GPUS):
            return tuple(map(NamedCard.of_entry, self.gpus))
        return tuple(map(_named, self._rows(_GPUS)))

    @cached_property
    def sought_lines(self) -> tuple[SoughtLine, ...]:
        if self._has_own(_LINES):
            return tuple(map(SoughtLine.of_entry, self.known_lines))
        return tuple(map(_sought, self._rows(_LINES)))

    def stories_by_causes(self, ids: Collection[str]) -> tuple[StoryRule, ...]:
        """Those that may begin with one of these checks, or all."""
        if self._has_own(_STORIES):
            return self.stories
        return tuple(row.read() for causes, row in self._story_rows if not causes.isdisjoint(ids))

    @cached_property
    def _story_rows(self) -> tuple[tuple[frozenset[str], Row[StoryRule]], ...]:
        """With the words of its line of causes, ids among them."""
        rows = self._rows(_STORIES)
        heads = (_CAUSES.search(row.text) for row in rows)
        causes = (frozenset(_WORD.findall(head[0]) if head else ()) for head in heads)
        return tuple(zip(causes, rows, strict=True))

    def _has_own(self, table: Table[E]) -> bool:
        """The user's file has rows of it, so that all of them are read."""
        return bool(self._additions and table.name in self._additions.content)

    def _rows(self, table: Table[E]) -> list[Row[E]]:
        path = self._directory / f"{table.name}.toml"
        return [Row(table, path, row) for row in _read(path).split(_head(table))[1:]]


TABLES = tuple(name for name, one in vars(Catalog).items() if isinstance(one, Table))


def load(extra: Path | None = None) -> Catalog:
    """With the entries of a user's file; UsageError carries all problems of that file."""
    if extra is None:
        return _shipped()
    document = _open(extra)
    catalog = Catalog(additions=document)
    reader = Reader(document.file)
    for name in document.content:
        if name != _AS_OF and name not in TABLES:
            reader.complain(
                Place(name), f"{name} is not a table of the catalog", name, ", ".join(TABLES)
            )
            continue
        try:
            getattr(catalog, name)
        except UsageError as error:
            reader.problems += error.problems
    if not reader.problems and "drivers" in document.content:
        _check_cards(catalog, reader)
    if not reader.problems and "known_lines" in document.content:
        _check_patterns(set(catalog.known_lines) - set(_shipped().known_lines), reader)
    if reader.problems:
        raise UsageError(reader.problems)
    return catalog


@cache
def load_once(extra: Path | None) -> Catalog:
    """For each of many hosts."""
    return load(extra)


@cache
def _shipped() -> Catalog:
    return Catalog()


def _check_cards(catalog: Catalog, reader: Reader) -> None:
    """A verdict on a card that the catalog does not know would never apply."""
    known = {EVERY_CARD, *ARCHITECTURES, *(gpu.name for gpu in catalog.gpus)}
    for branch in catalog.drivers:
        for verdict in branch.verdicts:
            for name in set(verdict.gpus) - known:
                reader.complain(
                    Place(branch.branch),
                    "a verdict names a card that is not in the catalog",
                    name,
                    ", ".join(sorted(known)),
                )


def _check_patterns(lines: Iterable[KnownLine], reader: Reader) -> None:
    for line in lines:
        faults = [(one, fault) for one in line.patterns if (fault := fault_of(one))]
        for pattern, fault in faults:
            reader.complain(Place(line.name), f"a pattern {fault}", pattern, _LINEAR)
        is_found = compiled(line.pattern).search if not faults else None
        if is_found and not is_found(line.example):
            reader.complain(Place(line.name), "its example is no line of it", line.example)
        if is_found and is_found(line.counter):
            reader.complain(Place(line.name), "its counter is a line of it", line.counter)
        if not any(word in line.example.lower() for word in line.words):
            reader.complain(Place(line.name), "its example has none of its words", line.example)


def _as_of(document: Document) -> date:
    said = document.content[_AS_OF]
    try:
        return date.fromisoformat(str(said))
    except ValueError:
        problem = Problem(
            message=f"{_AS_OF} is not a day",
            accepted='a day such as "2026-11-27"',
            file=document.file,
            key=_AS_OF,
            value=shown(said),
        )
        raise UsageError(problem) from None


def _open(path: Path) -> Document:
    return _parsed(path, _read(path))


def _read(path: Path) -> str:
    try:
        return regular_file.read(path, most=_MOST_BYTES).decode()
    except OSError as error:
        problem = Problem(
            message=f"cannot read the catalog file: {error.strerror}",
            fix="name a readable file, or remove the key `catalog`",
            file=str(path),
        )
    except UnicodeDecodeError:
        problem = Problem(
            message="the catalog file is not UTF-8 text",
            fix="save it as UTF-8",
            file=str(path),
        )
    raise UsageError(problem)


def _parsed(path: Path, text: str) -> Document:
    try:
        return Document(str(path), _TOML.loads(text))
    except RecursionError:
        problem = Problem(
            message="the catalog file has lists or tables in too many others",
            fix=f"write tables {', '.join(f'[[{name}]]' for name in TABLES)}",
            file=str(path),
        )
    except ValueError as error:
        line = _LINE.search(str(error))
        problem = Problem(
            message=f"the catalog file is not valid TOML: {error}",
            fix="correct that line: texts in quotes, lists in brackets, one key a line",
            file=str(path),
            line=int(line[1]) if line else None,
        )
    raise UsageError(problem)


def _merged(table: Table[E], own: tuple[E, ...], document: Document) -> tuple[E, ...]:
    """The entries with those of the document added, or overriding them."""
    reader = Reader(document.file)
    entries: dict[object, E] = {getattr(entry, table.key): entry for entry in own}
    seen: set[object] = set()
    for at, raw in enumerate(_tables_of(table, document, reader)):
        place = Place(shown(raw.get(table.key, f"{table.name}[{at}]")))
        before = len(reader.problems)
        values = reader.values(table.kind, raw, place)
        key = values.get(table.key)
        if key is None:
            # Whether the entry is new or an override, and so what it lacks, depends on its key.
            if table.key not in raw:
                reader.complain(
                    place, f"{table.key} is missing", accepted=f"the entry's {table.key}"
                )
            continue
        if key in seen:
            reader.complain(place, f"two entries have the same {table.key}", key, "one entry each")
        seen.add(key)
        known = entries.get(key)
        # An unreadable field is already reported, and does not count as missing too.
        if known is None and reader.missing(table.kind, raw, place):
            continue
        if len(reader.problems) > before:
            continue
        entry = build(table.kind, values) if known is None else _overridden(known, values)
        for fault in _faults(entry):
            reader.complain(place, fault.message, fault.value, fault.accepted)
        entries[key] = entry
    if reader.problems:
        raise UsageError(reader.problems)
    return tuple(entries.values())


def _tables_of(table: Table[E], document: Document, reader: Reader) -> list[dict[str, object]]:
    content = document.content.get(table.name, [])
    if isinstance(content, list) and all(isinstance(one, dict) for one in content):
        return content
    reader.complain(
        Place(table.name), f"{table.name} is not a list of tables", accepted=f"[[{table.name}]]"
    )
    return []


def _head(table: Table[E]) -> str:
    return f"[[{table.name}]]\n"


def _named(row: Row[Gpu]) -> NamedCard:
    head = _NAMES.match(row.text)
    if head is None:
        return NamedCard.of_entry(row.read())
    aliases, ids = (tuple(_WORD.findall(head[one])) for one in ("aliases", "ids"))
    return NamedCard(head["name"], aliases, ids, row.read)


def _sought(row: Row[KnownLine]) -> SoughtLine:
    head = _SOUGHT.match(row.text)
    if head is None:
        return SoughtLine.of_entry(row.read())
    words = tuple(_WORD.findall(head["words"]))
    return SoughtLine(words, head["pattern"], _LAST_RESORT in row.text, row.read)


def _overridden(entry: E, values: Values) -> E:
    fields: Values = {**vars(entry), **values}
    if isinstance(entry, DriverBranch):
        given: DriverBranch = build(DriverBranch, fields)
        if "verdicts" in values:
            fields["verdicts"] = given.verdicts + entry.verdicts
        if "kernels" in values:
            fields["kernels"] = given.kernels + entry.kernels
        releases = {one.version: one for one in (*entry.releases, *given.releases)}
        fields["releases"] = tuple(
            sorted(releases.values(), key=lambda one: versions.parse(one.version))
        )
    return build(type(entry), fields)


class _Fault(NamedTuple):
    message: str
    value: str
    accepted: str


def _faults(entry: E) -> Iterator[_Fault]:
    if isinstance(entry, DriverBranch):
        for at, release in enumerate(entry.releases):
            if versions.branch_of(release.version) != entry.branch:
                yield _Fault(
                    f"releases[{at}].version is not a release of this branch",
                    release.version,
                    f"{versions.EXAMPLES}, of branch {entry.branch}",
                )
    elif isinstance(entry, Gpu):
        least = entry.watts_min or entry.watts_default
        most = entry.watts_max or entry.watts_default
        if not 0 < least <= entry.watts_default <= most:
            yield _Fault(
                "watts_min, watts_default and watts_max are out of order",
                f"{entry.watts_min}, {entry.watts_default}, {entry.watts_max}",
                "0 < min <= default <= max; 0 for an unknown min or max",
            )
    elif isinstance(entry, FirmwareSetting):
        every = [board.cpu for board in entry.boards if not board.makers]
        if not ("any" in every or {"amd", "intel"} <= set(every)):
            accepted = "words with makers = [], for any cpu or for amd and intel each"
            yield _Fault("boards lacks words for all other boards", str(every), accepted)
    elif not isinstance(entry, Link):
        return
    elif not 0 < entry.slowest <= entry.fastest <= entry.theoretical:
        yield _Fault(
            "slowest, fastest and theoretical are out of order",
            f"{entry.slowest}, {entry.fastest}, {entry.theoretical}",
            "0 < slowest <= fastest <= theoretical",
        )
