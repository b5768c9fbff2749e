"""The boots that the journal remembers, and where it is; for people, how the last one ended."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, matches, stripped

STORAGE: Final = "test -e /var/log/journal/*/*.journal"
_END: Final = "journalctl -b -1 -q --no-pager -o short-iso-precise -n 40"
_LIST: Final = "journalctl --list-boots -q --no-pager"

_BOOT: Final = re.compile(
    r"\s*(?P<offset>-?[0-9]{1,6})\s+(?P<id>[0-9a-zA-Z-]{8,64})\s+(?P<rest>\S.*)"
)
_MOMENT: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<time>[0-9:]{8}) (?P<zone>\S{1,8}?)(?=\W|$)"
)


@dataclass(frozen=True, kw_only=True)
class BootRecord:
    """Offset 0 is this boot. The moments are RFC 3339 UTC where the list names the zone."""

    offset: int
    boot_id: str
    first: str | None
    last: str | None
    line: str


@dataclass(frozen=True, kw_only=True)
class Boots:
    """None: not reported."""

    boots: tuple[BootRecord, ...] = ()
    is_persistent: bool | None = None  # the journal is on disk
    is_empty: bool = False  # there is no journal
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Boots:
    found = blocks(text)
    listed, unparsed = _listed(found.get(_LIST, ""))
    known = {_LIST, _END, STORAGE}
    unparsed += tuple(head for head in found if head not in known)
    if not known & set(found):
        unparsed += tuple(line for line in lines(text) if line.strip())
    storage = found.get(STORAGE, "").strip()
    return Boots(
        boots=listed,
        is_persistent={"yes": True, "no": False}.get(storage),
        is_empty=not text.strip(),
        unparsed=unparsed,
    )


def _listed(text: str) -> tuple[tuple[BootRecord, ...], tuple[str, ...]]:
    records: list[BootRecord] = []
    found, unparsed = matches(_BOOT, stripped(text))
    for shape in found:
        moments = [
            f"{one['day']}T{one['time']}Z" if one["zone"] in {"UTC", "GMT"} else None
            for one in _MOMENT.finditer(shape["rest"])
        ]
        records.append(
            BootRecord(
                offset=int(shape["offset"]),
                boot_id=shape["id"],
                first=moments[0] if moments else None,
                last=moments[1] if len(moments) > 1 else None,
                line=shape.string,
            )
        )
    return tuple(records), tuple(line for line in unparsed if not line.startswith("IDX "))


# TZ: so that the list is in a known zone. One boot alone has none before it.
_SNIPPET = rf"""
command -v journalctl >/dev/null || return 0
has() {{ [ -e "$1" ]; }}
TZ=UTC; export TZ
block '{STORAGE}'
if has /var/log/journal/*/*.journal; then echo yes; else echo no; fi
list=$({_LIST} 2>&1)
code=$?
block '{_LIST}'
set -f; IFS='
'
set -- $list
set +f; unset IFS
if [ $# -le 100 ]; then say "$list"; else say "$list" | tail -n 100; fi
if [ "$code" != 0 ] || [ $# -gt 1 ]; then run {_END} | cut -c -300; fi
[ "$code" = 0 ] || is_root
"""

_TECHNICAL = (
    f"{STORAGE} {_END} {_LIST} systemd-shutdown stopped shutting down reached target system "
    "shutdown power-off poweroff halted restarting kexec reboot halt final finished unmounting "
    "file systems will hint failed files specifying data from the specified"
)

SECTION = Section(
    name="boots",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=12,
    wants_root=True,
    lane="journal",
    is_slow=True,
    technical=_TECHNICAL,
)
