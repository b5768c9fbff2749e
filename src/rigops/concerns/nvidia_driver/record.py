"""The driver that a host is pinned to, a file there with one key a line. It is written last.

The kernel hook reads it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from rigops.catalog.model import ModuleFlavor

PATH: Final = "/var/lib/rigops/driver.json"
SCHEMA: Final = "rigops.driver/1"
NOTHING: Final = json.dumps({"schema": SCHEMA}) + "\n"  # is pinned any more


@dataclass(frozen=True, kw_only=True)
class PinnedDriver:
    """`declared`: what it was resolved from. Another declaration is resolved again."""

    version: str
    flavor: ModuleFlavor
    declared: str
    packages: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # the text of rigops' own file of sources
    prebuilt: tuple[str, ...] = ()  # kernels whose modules the distribution built and signed


def pinned(text: str | None) -> PinnedDriver | None:
    """A record that cannot be read is none: then it is resolved again."""
    if text is None:
        return None
    try:
        fields = json_fields.parse(text, place=PATH)
        fields.require_schema(SCHEMA)
        return PinnedDriver(
            version=fields.text("version"),
            flavor="open" if fields.text("flavour") == "open" else "proprietary",
            declared=fields.text("declared"),
            packages=fields.text_map("packages"),
            sources={one.text("name"): one.texts("versions") for one in fields.each("sources")},
            asked=fields.texts("asked"),
            also=fields.texts("also"),
            beside=fields.text_map("beside") if fields.raw("beside") else {},  # not in older ones
            source=fields.text("source"),
            prebuilt=fields.texts("prebuilt"),
        )
    except RigopsError:
        return None


def document(record: PinnedDriver) -> str:
    fields = {
        **vars(record),
        "sources": [{"name": name, "versions": its} for name, its in record.sources.items()],
    }
    if not record.beside:
        del fields["beside"]  # so that an older document is not written anew
    # The document had the British word before the code had the American one.
    named = {"flavour" if name == "flavor" else name: value for name, value in fields.items()}
    return json.dumps({"schema": SCHEMA, **named}, indent=1, default=dict) + "\n"
