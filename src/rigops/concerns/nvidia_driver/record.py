"""The driver that a host is pinned to, a file there with one key a line. It is written last.

The kernel hook reads it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Annotated, Final

from rigops.catalog.model import ModuleFlavor
from rigops.dataclass import dataclass
from rigops.json_dataclass import NAME, parse, to_json
from rigops.json_fields import Fields, readable

PATH: Final = "/var/lib/rigops/driver.json"
SCHEMA: Final = "rigops.driver/1"
NOTHING: Final = json.dumps({"schema": SCHEMA}) + "\n"  # is pinned any more


def _sources(fields: Fields, name: str) -> dict[str, tuple[str, ...]]:
    return {one.text("name"): one.texts("versions") for one in fields.each(name)}


@dataclass(frozen=True, kw_only=True)
class PinnedDriver:
    """`declared`: what it was resolved from. Another declaration is resolved again."""

    version: str
    flavor: ModuleFlavor = field(metadata={NAME: "flavour"})
    declared: str
    packages: Mapping[str, str] = field(default_factory=dict)
    sources: Annotated[Mapping[str, tuple[str, ...]], _sources] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)  # not in older documents
    source: str = ""  # the text of rigops' own file of sources
    prebuilt: tuple[str, ...] = ()  # kernels whose modules the distribution built and signed


def pinned(text: str | None) -> PinnedDriver | None:
    """A record that cannot be read is none: then it is resolved again."""
    required = ("packages", "sources", "asked", "also", "source", "prebuilt")
    return readable(
        partial(parse, PinnedDriver, schema=SCHEMA, place=PATH, required=required), text
    )


def document(record: PinnedDriver) -> str:
    sources = [{"name": name, "versions": its} for name, its in record.sources.items()]
    fields = {"schema": SCHEMA, **to_json(record), "sources": sources}
    if not record.beside:
        del fields["beside"]  # so that an older document is not rewritten
    return json.dumps(fields, indent=1) + "\n"
