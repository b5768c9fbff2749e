"""Changes to files on a host in one exec: the sh script.

The order lets the next run complete what a crash cut off. To write: earlier content aside, the
record, the files, effects. To undo: the files, effects, the record.

Systemd rereads a unit that it has loaded only when it reloads, which may take the GPUs away from
containers. New units, and the end of any, need no reload; a new content of a loaded one is noted,
and waits for the only reload, at the end of a run.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from rigops.atomic_file import SHELL, shell_aside, shell_replace
from rigops.dataclass import dataclass
from rigops.ownership.ownership import (
    MADE,
    PREVIOUS_FOLDER,
    Forget,
    InPlace,
    Make,
    Ownership,
    Show,
    Step,
    Undo,
    Write,
)
from rigops.probe.sections.rigops_state import RECORD, RELOAD, RUNTIME
from rigops.probe.sections.units import SYSTEM_UNITS

_RECORD_MODE: Final = 0o644
_RESTART: Final = "restart"  # after the reload
_REREAD: Final = "reread"

# A lost connection does not end what has begun, and a script that arrives in part does nothing.
_TOOLS: Final = f"""\
set -eu
trap '' HUP PIPE
umask 022
{SHELL}back_up() {{
    cp -p "$1" "{PREVIOUS_FOLDER}/$2.rigops-new"
    settle "{PREVIOUS_FOLDER}/$2"
}}
restore() {{
    cp -p "{PREVIOUS_FOLDER}/$2" "$1.rigops-new"
    settle "$1"
}}
original() {{ # NAME DIGEST: it is still what was there before
    found=absent
    if [ -f "{PREVIOUS_FOLDER}/$1" ]; then
        found=$(sha256sum <"{PREVIOUS_FOLDER}/$1")
        found=${{found%% *}}
    fi
    if [ "$found" != "$2" ]; then
        echo "{PREVIOUS_FOLDER}/$1, which was there before rigops, is damaged or lost: restore a" \
            "backup of it, or remove by hand what rigops wrote in its place" >&2
        exit 1
    fi
}}
expect() {{
    found=absent
    if [ -L "$1" ] || {{ [ -e "$1" ] && [ ! -f "$1" ]; }}; then
        echo "$1 is no regular file; move it away and run this again" >&2
        exit 1
    elif [ -e "$1" ]; then found=$(sha256sum <"$1"); found=${{found%% *}}; fi
    if [ "$found" != "$2" ]; then
        echo "$1 changed meanwhile; run this again" >&2
        exit 1
    fi
}}
"""
_UNITS: Final = f"""\
unread() {{ # WORD UNIT...: those that systemd has loaded wait for its reload
    [ -d /run/systemd/system ] || return 0
    word=$1
    shift
    found=$(systemctl list-units --all --plain --no-legend "$@")
    found=$(printf '%s\n' "$found" |
        awk -v word="$word" 'NF && $2 != "not-found" {{ print $1, word }}')
    [ -n "$found" ] || return 0
    mkdir -p {RUNTIME}
    printf '%s\n' "$found" >>{RELOAD}
}}
restart() {{ # UNIT...: those that do not wait
    for unit; do
        shift
        grep -qsxF "$unit {_RESTART}" {RELOAD} || set -- "$@" "$unit"
    done
    [ $# = 0 ] || systemctl restart "$@"
}}
"""
# The note goes last, so that the next run finishes one that was cut off. It goes too where a unit
# does not start: that shows without it.
RELOADING: Final = f"""\
reload() {{
    [ -s {RELOAD} ] || return 0
    systemctl daemon-reload
    set --
    for unit in $(sed -n 's/ {_RESTART}$//p' {RELOAD} | sort -u); do
        [ ! -e "{SYSTEM_UNITS}$unit" ] || set -- "$@" "$unit"
    done
    code=0
    [ $# = 0 ] || systemctl restart "$@" || code=$?
    rm -f {RELOAD}
    return "$code"
}}
"""
_FOLDERS: Final = f"mkdir -p {PREVIOUS_FOLDER}\nchmod 700 {PREVIOUS_FOLDER}"


@dataclass(frozen=True)
class Effect:
    """The effects of a file that is there or has gone; a unit is also enabled and started."""

    command: str = ""
    unit: str = ""


@dataclass(frozen=True)
class FileWork:
    """The work of one or more operations on owned files. `more_effects`: those without a step."""

    before: Ownership
    steps: tuple[Step, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    more_effects: tuple[Effect, ...] = ()
    strays: tuple[str, ...] = ()
    notes: Mapping[str, bytes] = field(default_factory=dict)  # records, written before all else

    def __bool__(self) -> bool:
        return bool(self.more_effects or self.strays or self.notes or _real(self.steps))

    @property
    def unread(self) -> Mapping[str, str]:
        """Units with a new content, by name or pattern; whether they are restarted once reread."""
        started = {effect.unit for effect in self.effects.values()}
        paths = [step.record.path for step in self.steps if isinstance(step, Write)]
        paths += [
            step.owned.path for step in self.steps if isinstance(step, Undo) and step.owned.previous
        ]
        units = filter(None, map(unit_changed_by, paths))
        return {unit: _RESTART if unit in started else _REREAD for unit in units}

    @property
    def after(self) -> Ownership:
        ownership = self.before
        for step in self.steps:
            ownership = ownership.after(step)
        return ownership


def joined(works: Sequence[FileWork]) -> FileWork:
    """The work of several operations, each of which knew what those before it would do."""
    return FileWork(
        before=works[0].before,
        steps=tuple(step for work in works for step in work.steps),
        contents={path: text for work in works for path, text in work.contents.items()},
        effects={path: effect for work in works for path, effect in work.effects.items()},
        more_effects=tuple(effect for work in works for effect in work.more_effects),
        strays=tuple(path for work in works for path in work.strays),
        notes={path: text for work in works for path, text in work.notes.items()},
    )


def unit_changed_by(path: str) -> str:
    """A unit of systemd's whose content this file is or adds to; empty: none."""
    if not path.startswith(SYSTEM_UNITS):
        return ""
    name = path.removeprefix(SYSTEM_UNITS).partition("/")[0].removesuffix(".d")
    return name.replace("@.", "@*.")


def script(work: FileWork, *, reloads: bool = False) -> str:
    """The script, or nothing where nothing is to be done. `reloads`: no other ends the run."""
    if not work:
        return ""
    lines = "\n".join(line for line in (*_lines(work), "reload" if reloads else "") if line)
    tools = f"{_TOOLS}{_UNITS}{RELOADING if reloads else ''}"
    return f"{tools}main() {{\n{lines}\n}}\nmain\n"


def noted(path: str, note: bytes) -> str:
    """Shell that writes a record of ours: at every moment the old or the new."""
    return shell_replace(path, _RECORD_MODE, note)


def _lines(work: FileWork) -> Iterator[str]:
    steps = _real(work.steps)
    if work.strays:
        yield shlex.join(("rm", "-f", *work.strays))
    yield from map(_expectation, steps)
    for step in steps:
        if isinstance(step, Undo) and (previous := step.owned.previous):
            yield shlex.join(("original", previous.name, previous.digest))
    if steps or work.notes:
        yield _FOLDERS
    for path, note in work.notes.items():
        yield noted(path, note)
    puts = [step for step in steps if isinstance(step, (Write, Make))]
    backs = [step for step in steps if isinstance(step, (Undo, Forget))]
    if puts:
        yield from _put(work, puts)
    effects = [work.effects.get(put.record.path, Effect()) for put in puts]
    yield from _effects([*effects, *work.more_effects], starts=True)
    if backs:
        yield from _undone(work, backs)


def _put(work: FileWork, puts: Sequence[Write | Make]) -> Iterator[str]:
    ownership = work.before
    writes = [put for put in puts if not isinstance(put, Make)]
    for put in puts:
        ownership = ownership.after(put)
    for write in writes:
        if write.backup:
            yield shlex.join(("back_up", write.record.path, write.backup.name))
    yield _record(ownership)
    for write in writes:
        yield shell_aside(write.record.path, write.record.mode, work.contents[write.record.path])
    yield from _noted_unread(work, [write.record.path for write in writes])
    if writes:
        yield shlex.join(("settle", *(write.record.path for write in writes)))


def _undone(work: FileWork, backs: Sequence[Undo | Forget]) -> Iterator[str]:
    effects = [work.effects.get(back.owned.path, Effect()) for back in backs]
    units = [effect.unit for effect in effects if effect.unit]
    if units:
        yield f"{shlex.join(('systemctl', 'stop', *units))} || true"
        yield f"{shlex.join(('systemctl', 'disable', '--quiet', '--no-reload', *units))} || true"
    undone = [back.owned for back in backs if isinstance(back, Undo)]
    yield from _noted_unread(work, [owned.path for owned in undone if owned.previous])
    for owned in undone:
        previous = owned.previous
        words = ("restore", owned.path, previous.name) if previous else ("rm", "-f", owned.path)
        yield shlex.join(words)
    yield from _effects(effects, starts=False)
    if units:
        yield f"{shlex.join(('systemctl', 'reset-failed', *units))} 2>/dev/null || true"
    yield _record(work.after)


def _effects(effects: Iterable[Effect], *, starts: bool) -> Iterator[str]:
    found = list(dict.fromkeys(effects))
    units = list(dict.fromkeys(effect.unit for effect in found if effect.unit))
    if units and starts:
        yield shlex.join(("systemctl", "enable", "--quiet", "--no-reload", *units))
    yield from dict.fromkeys(effect.command for effect in found)
    if units and starts:
        yield shlex.join(("restart", *units))


def _noted_unread(work: FileWork, paths: Iterable[str]) -> Iterator[str]:
    """Before the content is there."""
    units = [unit for path in paths if (unit := unit_changed_by(path))]
    for word in (_RESTART, _REREAD):
        found = [unit for unit in units if work.unread[unit] == word]
        if found:
            yield shlex.join(("unread", word, *found))


def _expectation(step: Step) -> str:
    match step:
        case Write(owned, before):
            return shlex.join(("expect", owned.path, before.digest if before else "absent"))
        case Undo(owned) if not owned.replaces and owned.digest != MADE:
            return shlex.join(("expect", owned.path, owned.digest))
        case _:
            return ""  # while an update was interrupted, either of our two contents may be there


def _real(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if not isinstance(step, (InPlace, Show))]


def _record(ownership: Ownership) -> str:
    return noted(RECORD, ownership.to_json().encode())


def target(path: str, digest: str | None) -> str:
    """Sets `at`, and fails where the file changed since it was read. A link stays one.

    `digest`: of the file as it was read; None where there was none.
    """
    quoted = shlex.quote(path)
    return f'at=$(readlink -f {quoted}) || at={quoted}\nexpect "$at" {digest or "absent"}'


def replaced(path: str, digest: str | None, text: str | None) -> str:
    """With owner, mode and all that an existing file has; at every moment the old or the new.

    `text`: None removes the file.
    """
    if text is None:
        return f'{target(path, digest)}\nrm -f "$at"'
    return f"""\
{target(path, digest)}
if [ -e "$at" ]; then
    cp -a "$at" "$at.rigops-new"
else
    mkdir -p "${{at%/*}}"
    : >"$at.rigops-new"
fi
base64 -d >"$at.rigops-new" <<'RIGOPS_END'
{b64encode(text.encode()).decode()}
RIGOPS_END
settle "$at\""""
