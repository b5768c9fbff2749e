"""What rigops itself keeps on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.owned import RECORD, Present
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE = "/var/lib/rigops"
JOURNAL = f"tail -n 50 {STATE}/journal.jsonl"
OWNED_FILES = "sha256sum OWNED"

_FILE = re.compile(r"(?P<mode>[0-7]{3,4}) (?P<digest>[0-9a-f]{64}) (?P<path>/.*)")


@dataclass(frozen=True)
class RigopsState:
    """Texts as they stand there; who knows a record reads it. None: there is no such record."""

    owned: str | None = None
    present: Mapping[str, Present] = field(default_factory=dict)  # the owned files that are there
    records: Mapping[str, str] = field(default_factory=dict)  # every other JSON file, by path
    journal: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def parse(text: str) -> RigopsState:
    found = blocks(text)
    records = {path: body for path, body in found.items() if path.startswith(f"{STATE}/")}
    return RigopsState(
        owned=records.pop(RECORD, None),
        present=dict(_present(found.get(OWNED_FILES, ""))),
        records=records,
        journal=tuple(line for line in lines(found.get(JOURNAL, "")) if line.strip()),
        unread=tuple(
            head
            for head in found
            if head not in {JOURNAL, OWNED_FILES} and not head.startswith(STATE)
        ),
    )


def _present(body: str) -> Iterator[tuple[str, Present]]:
    for line in lines(body):
        found = _FILE.fullmatch(line)
        if found:
            yield found["path"], Present(found["digest"], int(found["mode"], 8))


_SNIPPET = f"""
show {STATE}/*.json
[ ! -e {STATE}/journal.jsonl ] || run {JOURNAL}
if [ -r {RECORD} ]; then
    echo "== {OWNED_FILES}"
    sed -n 's/^ *"path": "\\(.*\\)",$/\\1/p' {RECORD} | while IFS= read -r path; do
        [ -f "$path" ] || continue
        digest=$(sha256sum <"$path") && echo "$(stat -c %a "$path") ${{digest%% *}} $path"
    done
fi
"""

SECTION = Section(name="rigops-state", snippet=_SNIPPET, parse=parse, wants_root=True, calm=True)
