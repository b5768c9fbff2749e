"""The catalog from its files: one TOML file per table, read when first asked for.

A user's file has the same tables. Its entries override those of the same key field by field, or are
new and complete.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from rigops import regular_file
from rigops.catalog import checks, versions
from rigops.catalog.model import (
    ARCHITECTURES,
    EVERY_CARD,
    DriverBranch,
    FirmwareSetting,
    Generation,
    Gpu,
    InitCode,
    KernelChange,
    Link,
    Xid,
)
from rigops.catalog.reader import Place, Reader, Values, build, shown
from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError

if TYPE_CHECKING:
    from rigops.catalog.model import Release

_MOST_BYTES = 4 * 1024 * 1024
SHIPPED = Path(__file__).with_name("data")

# In the standard library from Python 3.11 on. Its ValueErrors name the line.
_TOML = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_LINE = re.compile(r"\(?at line ([0-9]+)")

E = TypeVar("E", DriverBranch, KernelChange, Gpu, Generation, Xid, InitCode, FirmwareSetting, Link)


@dataclass(frozen=True)
class Table(Generic[E]):
    """One table of the catalog, in a file of the same name."""

    name: str
    kind: type[E]
    key: str


_AS_OF = "as_of"
TABLES = (
    "drivers", "kernel_changes", "gpus", "generations", "xids", "init_codes", "firmware", "links"
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A parsed TOML file."""

    file: str
    content: Mapping[str, object]


class Catalog:
    """The tables. Each is read on first use."""

    def __init__(self, directory: Path = SHIPPED, additions: Document | None = None) -> None:
        self._directory = directory
        self._additions = additions

    @cached_property
    def drivers(self) -> tuple[DriverBranch, ...]:
        return self._entries(Table("drivers", DriverBranch, "branch"), self._branches)

    @cached_property
    def kernel_changes(self) -> tuple[KernelChange, ...]:
        return self._entries(Table("kernel_changes", KernelChange, "name"))

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        return self._entries(Table("gpus", Gpu, "name"))

    @cached_property
    def generations(self) -> tuple[Generation, ...]:
        return self._entries(Table("generations", Generation, "name"))

    @cached_property
    def xids(self) -> tuple[Xid, ...]:
        return self._entries(Table("xids", Xid, "number"))

    @cached_property
    def init_codes(self) -> tuple[InitCode, ...]:
        return self._entries(Table("init_codes", InitCode, "code"))

    @cached_property
    def firmware(self) -> tuple[FirmwareSetting, ...]:
        return self._entries(Table("firmware", FirmwareSetting, "setting"))

    @cached_property
    def links(self) -> tuple[Link, ...]:
        return self._entries(Table("links", Link, "name"))

    @cached_property
    def as_of(self) -> date:
        """When the entries were last compared with what is published."""
        documents = (self._branches, self._additions)
        return max(_as_of(one) for one in documents if one and _AS_OF in one.content)

    @cached_property
    def _branches(self) -> Document:
        return _open(self._directory / "drivers.toml")

    def _entries(self, table: Table[E], document: Document | None = None) -> tuple[E, ...]:
        own = _merged(table, (), document or _open(self._directory / f"{table.name}.toml"))
        return _merged(table, own, self._additions) if self._additions else own


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
    try:
        text = regular_file.read(path, most=_MOST_BYTES).decode()
        return Document(str(path), _TOML.loads(text))
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
        for fault in checks.faults(entry):
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


def _overridden(entry: E, values: Values) -> E:
    fields: Values = {**vars(entry), **values}
    if isinstance(entry, DriverBranch):
        given = build(DriverBranch, fields)
        if "verdicts" in values:
            fields["verdicts"] = given.verdicts + entry.verdicts
        if "kernels" in values:
            fields["kernels"] = given.kernels + entry.kernels
        fields["releases"] = _together(entry.releases, given.releases)
    return build(type(entry), fields)


def _together(own: Iterable[Release], added: Iterable[Release]) -> tuple[Release, ...]:
    return tuple(sorted({one.version: one for one in (*own, *added)}.values(), key=_order))


def _order(release: Release) -> tuple[int, ...]:
    # Checks report a malformed version.
    try:
        return versions.parse(release.version).release
    except ValueError:
        return ()
