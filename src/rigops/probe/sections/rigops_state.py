"""The files of rigops itself on the host."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.rigops_traces import (
    ORIGINALS,
    TRACES,
    Trace,
    snippet,
    traces,
)
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.probe.text import blocks, lines, matches, shown_units
from rigops.unit_state import unit_in_words, unit_runs

STATE = "/var/lib/rigops"
RUNTIME = "/run/rigops"  # what a service of rigops does just now
RECORD = f"{STATE}/owned.json"  # of every file that rigops owns
RELOAD = f"{RUNTIME}/reload"  # units whose new content waits for systemd's reload
LEAVING = f"{STATE}/leaving.json"
ARGUMENTS = f"{STATE}/kernel_args.json"
JOURNAL = f"tail -n 50 {STATE}/journal.jsonl"
OWNED_FILES = "sha256sum OWNED"
OWNED_UNITS = "systemctl show OWNED"
STRAYS = "ls *.rigops-new"
MISSHAPEN = "find MISSHAPEN"

_FOLDERS: Final = (f"{STATE}/", f"{RUNTIME}/")
_JOURNAL_BYTES: Final = 1024 * 1024  # in which its last 50 lines are
_KNOWN = {JOURNAL, OWNED_FILES, OWNED_UNITS, STRAYS, MISSHAPEN, TRACES, ORIGINALS}
# Bundles of version 0.1 have permissions without owner, in octal.
_FILE = re.compile(
    r"(?:(?P<mode>[0-7]{3,4})|(?P<status>[0-9a-f]{4} [0-9]{1,10}:[0-9]{1,10})) "
    r"(?P<digest>[0-9a-f]{64}|-) (?P<path>/.*)"
)
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}

ROOT: Final = "0:0"


@dataclass(frozen=True)
class Present:
    """A file at a path. The digest is SHA-256, in hex; empty where there is no content to read.

    `owner`: the numbers of user and group. `kind`: in words; empty for a regular file.
    """

    digest: str
    mode: int
    owner: str = ROOT
    kind: str = ""

    @classmethod
    def from_stat(cls, status: str, digest: str) -> Present:
        """`status`: as `stat -c '%f %u:%g'` prints it. `digest`: "-" where there is none."""
        raw, _, owner = status.partition(" ")
        mode = int(raw, 16)
        kind = "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "a device")
        return cls(digest.strip("-"), stat.S_IMODE(mode), owner, kind)


@dataclass(frozen=True)
class OwnedUnit:
    """As systemd reports it: active, inactive, failed; enabled, disabled, masked."""

    active: str
    enabled: str
    drop_ins: tuple[str, ...] = ()  # of this very unit

    @property
    def runs(self) -> bool:
        return unit_runs(self.active, self.enabled)

    @property
    def in_words(self) -> str:
        return unit_in_words(self.active, self.enabled)


@dataclass(frozen=True)
class RigopsState:
    """Raw texts; their parsers are elsewhere. None: there is no such record."""

    owned: str | None = None
    present: Mapping[str, Present] = field(default_factory=dict)  # the owned files that are there
    are_files_known: bool = True  # False: the answer ended before them
    units: Mapping[str, OwnedUnit] = field(default_factory=dict)  # by name, of owned unit files
    unread: tuple[str, ...] = ()  # units whose new content an interrupted run left unread
    strays: tuple[str, ...] = ()  # files that an interrupted run left half made
    records: Mapping[str, str] = field(default_factory=dict)  # every other JSON file, by path
    journal: tuple[str, ...] = ()
    misshapen: tuple[str, ...] = ()  # no regular file, or far too long: a record without content
    are_traces_known: bool = True
    unrecorded: Mapping[str, Trace] = field(default_factory=dict)  # by path
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> RigopsState:
    found = blocks(text)
    misshapen = tuple(line for line in lines(found.get(MISSHAPEN, "")) if line.startswith(_FOLDERS))
    files, torn = matches(_FILE, lines(found.get(OWNED_FILES, "")))
    records = {path: body for path, body in found.items() if path.startswith(_FOLDERS)}
    records |= {path: "" for path in misshapen if path.endswith(".json")}
    waiting = [line.split()[0] for line in lines(records.pop(RELOAD, "")) if line.strip()]
    return RigopsState(
        owned=records.pop(RECORD, None),
        present={
            one["path"]: Present.from_stat(one["status"], one["digest"])
            if one["status"]
            else Present(one["digest"], int(one["mode"], 8))
            for one in files
        },
        are_files_known=OWNED_FILES in found and not torn,
        units={
            one["Id"]: OwnedUnit(
                one.get("ActiveState", ""),
                one.get("UnitFileState", ""),
                tuple(
                    path
                    for path in one.get("DropInPaths", "").split()
                    if f"/{one['Id']}.d/" in path
                ),
            )
            for one in shown_units(lines(found.get(OWNED_UNITS, "")))[0]
        },
        unread=tuple(dict.fromkeys(waiting)),
        strays=tuple(line for line in lines(found.get(STRAYS, "")) if line.startswith("/")),
        records=records,
        misshapen=misshapen,
        are_traces_known=TRACES in found,
        unrecorded=traces(found.get(TRACES, "")),
        journal=tuple(line for line in lines(found.get(JOURNAL, "")) if line.strip()),
        unparsed=tuple(
            head for head in found if head not in _KNOWN and not head.startswith(_FOLDERS)
        ),
    )


# All files in one call each, since a rig may own dozens.
_SNIPPET = f"""
set --
misshapen=
[ ! -d {STATE} ] || misshapen=$(find {STATE}/ {STATE}/vault/ {RUNTIME}/ -maxdepth 1 \
    \\( -name '*.json' -o -name journal.jsonl \\) \
    \\( ! -type f -o -name '*.json' -size +1024k \\) 2>/dev/null)
is_misshapen() {{
    case "
$misshapen
" in *"
$1
"*) ;; *) return 1 ;; esac
}}
for path in {STATE}/*.json {STATE}/vault/vault.json {RUNTIME}/*.json {RELOAD}; do
    is_misshapen "$path" || set -- "$@" "$path"
done
show "$@"
if [ -e {STATE}/journal.jsonl ] && ! is_misshapen {STATE}/journal.jsonl; then
    block "{JOURNAL}"
    tail -c {_JOURNAL_BYTES} {STATE}/journal.jsonl | tail -n 50
fi
if [ -n "$misshapen" ]; then block "{MISSHAPEN}"; echo "$misshapen"; fi
recorded=
strays=
units=
set --
for path in {STATE}/*.rigops-new {STATE}/previous/*.rigops-new; do
    [ -e "$path" ] && strays="$strays$path
"
done
if [ -r {RECORD} ] && ! is_misshapen {RECORD}; then
    recorded=$(sed -n -e 's/^ *"path": "\\(.*\\)",$/\\1/p' -e '${{/^}}$/p;}}' {RECORD})
    units=$(sed -n '/@\\./!s#^ *"path": "{SYSTEM_UNITS}\\([^/"]*\\)",$#\\1#p' {RECORD})
    set -f
    IFS='
'
    set -- ${{recorded%"}}"}}
    # Of one without its end nothing is sure.
    case $recorded in *"}}") ;; *) recorded= ;; esac
    for path; do
        shift
        [ -e "$path.rigops-new" ] && strays="$strays$path.rigops-new
"
        {{ [ -e "$path" ] || [ -L "$path" ]; }} && set -- "$@" "$path"
    done
fi
# Without a record, too: only where the answer reaches as far is it known that there is none.
block "{OWNED_FILES}"
[ $# = 0 ] || {{
    stat -c '%f %u:%g %n' "$@"
    find "$@" -prune -type f -exec sha256sum {{}} +
}} | awk '
    {{ path = $0; sub(/^[^ ]+ +/, "", path) }}
    length($1) == 64 {{ if (path in status) print status[path], $1, path; next }}
    {{ sub(/^[^ ]+ /, "", path); status[path] = $1 " " $2 }}
    $1 !~ /^8/ {{ print $1, $2, "-", path }}
'
if [ -n "$units" ] && [ -d /run/systemd/system ]; then
    block "{OWNED_UNITS}"
    # shellcheck disable=SC2086  # several units
    systemctl show -p Id,ActiveState,UnitFileState,DropInPaths $units
fi
if [ -n "$strays" ]; then block "{STRAYS}"; printf %s "$strays"; fi
{snippet(STATE)}"""

# Without it the owned files are unknown, so a slow host gets time for it.
SECTION = Section(
    name="rigops-state",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
