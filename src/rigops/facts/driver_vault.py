"""The packages that the host itself keeps, by what is really in their files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.facts.sections import SectionFact
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines
from rigops.vault.kept import FOLDER, POOL

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILES: Final = "pool"
_INDEX: Final = "index "
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<file>[^/]+\.(?:deb|run))")
_LONGEST_S: Final = 300  # reading two drivers from a slow disk


@dataclass(frozen=True)
class Pool:
    """`digests` by the names of files. `indexes`: texts, which nobody vouches for."""

    digests: Mapping[str, str] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def parse(text: str) -> Pool:
    found = blocks(text)
    said = [line for line in lines(found.get(_FILES, "")) if line.strip()]
    shapes = [(line, _LINE.fullmatch(line)) for line in said]
    return Pool(
        digests={shape["file"]: shape["digest"] for _, shape in shapes if shape},
        indexes=tuple(
            f"{body.strip(chr(10))}\n" for head, body in found.items() if head.startswith(_INDEX)
        ),
        unread=tuple(line for line, shape in shapes if not shape),
    )


SECTION: Final = Section(
    name="driver-vault",
    snippet=f"""
if cd {POOL} 2>/dev/null; then
    echo "== {_FILES}"
    for file in *.deb *.run; do
        [ ! -f "$file" ] || [ -L "$file" ] || sha256sum "$file"
    done
    for index in {FOLDER}/*.packages; do
        [ -f "$index" ] || continue
        echo "== {_INDEX}$index"; head -c 1000000 "$index"
    done
fi
exit 0
""",
    parse=parse,
    timeout_s=_LONGEST_S,
    wants_root=True,
)


class VaultPool(SectionFact[Pool]):
    section = SECTION
