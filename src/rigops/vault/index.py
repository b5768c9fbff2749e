"""The `Packages` file from which apt learns of a pinned set. Pure.

Its digest is in the lockfile with those of the packages. So the same packages have to give the same
text for ever, the description included.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rigops.vault.pinned_set import PinnedPackage

_FIELD = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):[ \t]*(?P<value>.*)")
TESTED = re.compile(r"tested up to Linux (?P<release>[0-9]+(?:\.[0-9]+)*)")
# What apt needs to install them. Descriptions and the like would be most of the text.
_FIELDS: Final = (
    "Package", "Version", "Architecture", "Multi-Arch", "Source", "Essential", "Priority",
    "Section", "Installed-Size", "Pre-Depends", "Depends", "Recommends", "Conflicts", "Breaks",
    "Replaces", "Provides", "Enhances",
)  # fmt: skip


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


def text_of(records: Iterable[tuple[PinnedPackage, Mapping[str, str]]]) -> str:
    every = sorted(records, key=lambda one: (one[0].name, one[0].architecture, one[0].version))
    return "\n".join(_stanza(package, record) for package, record in every)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _stanza(package: PinnedPackage, record: Mapping[str, str]) -> str:
    fields = {name: record[name] for name in _FIELDS if record.get(name)}
    fields["Filename"] = f"./pool/{package.file}"
    fields["Size"] = str(package.size)
    fields["SHA256"] = package.sha256
    tested = TESTED.search(record.get("Description", ""))
    fields["Description"] = f"kept by rigops{f', {tested[0]}' if tested else ''}"
    return "".join(f"{name}: {value}\n" for name, value in fields.items())
