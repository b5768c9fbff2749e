"""The sh script that carries out the steps of owned files on a host, in one exec. Pure.

The order makes a crash anywhere harmless: earlier content aside, the record, the files, what makes
them count; and for what is taken back the files, what makes that count, the record.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.owned import (
    PREVIOUS_FOLDER,
    RECORD,
    Conflict,
    Forget,
    Keep,
    Ownership,
    Remove,
    Restore,
    Show,
    Step,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_RECORD_MODE: Final = 0o644

# Files are written aside with their mode, synced and renamed: a crash leaves the old or the new.
# A lost connection does not end what has begun, and a script that arrives in part does nothing.
_TOOLS: Final = f"""\
set -eu
trap '' HUP PIPE
umask 022
aside() {{
    mkdir -p "${{1%/*}}"
    (umask 077 && base64 -d >"$1.rigops-new") || {{
        rm -f "$1.rigops-new"
        echo "$1 could not be written" >&2
        exit 1
    }}
    chmod "$2" "$1.rigops-new"
}}
settle() {{
    for path; do set -- "$@" "$path.rigops-new"; shift; done
    sync "$@"
    for path; do mv -f "$path" "${{path%.rigops-new}}"; done
}}
keep() {{
    cp -p "$1" "{PREVIOUS_FOLDER}/$2.rigops-new"
    sync "{PREVIOUS_FOLDER}/$2.rigops-new"
    mv -f "{PREVIOUS_FOLDER}/$2.rigops-new" "{PREVIOUS_FOLDER}/$2"
}}
bring_back() {{
    cp -p "{PREVIOUS_FOLDER}/$2" "$1.rigops-new"
    settle "$1"
}}
expect() {{
    found=absent
    if [ -e "$1" ]; then found=$(sha256sum <"$1"); found=${{found%% *}}; fi
    if [ "$found" != "$2" ]; then
        echo "$1 was changed by somebody else meanwhile; run this again" >&2
        exit 1
    fi
}}
"""
_FOLDERS: Final = f"mkdir -p {PREVIOUS_FOLDER}\nchmod 700 {PREVIOUS_FOLDER}"


@dataclass(frozen=True)
class Effect:
    """What makes a file count once it is there, or has gone; a unit is also enabled and started."""

    command: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Work:
    """What one or more operations do to owned files; `anew` are effects without a step."""

    before: Ownership
    steps: tuple[Step, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    anew: tuple[Effect, ...] = ()
    strays: tuple[str, ...] = ()
    notes: Mapping[str, bytes] = field(default_factory=dict)  # JSON of ours, before all else

    def __bool__(self) -> bool:
        return bool(self.anew or self.strays or self.notes or _real(self.steps))

    @property
    def after(self) -> Ownership:
        ownership = self.before
        for step in self.steps:
            ownership = ownership.after(step)
        return ownership


def joined(works: Sequence[Work]) -> Work:
    """The work of several operations, each of which knew what those before it would do."""
    return Work(
        before=works[0].before,
        steps=tuple(step for work in works for step in work.steps),
        contents={path: text for work in works for path, text in work.contents.items()},
        effects={path: effect for work in works for path, effect in work.effects.items()},
        anew=tuple(effect for work in works for effect in work.anew),
        strays=tuple(path for work in works for path in work.strays),
        notes={path: text for work in works for path, text in work.notes.items()},
    )


def script(work: Work) -> str:
    """The script, or nothing where nothing is to be done."""
    if not work:
        return ""
    lines = "\n".join(line for line in _lines(work) if line)
    return f"{_TOOLS}take_steps() {{\n{lines}\n}}\ntake_steps\n"


def noted(path: str, note: bytes) -> str:
    """Shell that writes a record of ours, whole at every moment."""
    return f"{_aside(path, _RECORD_MODE, note)}\n{shlex.join(('settle', path))}"


def _lines(work: Work) -> Iterator[str]:
    steps = _real(work.steps)
    if work.strays:
        yield shlex.join(("rm", "-f", *work.strays))
    yield from map(_expectation, steps)
    if steps or work.notes:
        yield _FOLDERS
    for path, note in work.notes.items():
        yield noted(path, note)
    puts = [step for step in steps if isinstance(step, (Write, Conflict))]
    backs = [step for step in steps if isinstance(step, (Restore, Remove, Forget))]
    if puts:
        yield from _put(work, puts)
    effects = [work.effects.get(put.record.path, Effect()) for put in puts]
    yield from _taking_effect([*effects, *work.anew], starts=True)
    if backs:
        yield from _taken_back(work, backs)


def _put(work: Work, puts: Sequence[Write | Conflict]) -> Iterator[str]:
    ownership = work.before
    for put in puts:
        ownership = ownership.after(put)
        if put.keep:
            yield shlex.join(("keep", put.record.path, put.keep.name))
    yield _record(ownership)
    for put in puts:
        yield _aside(put.record.path, put.record.mode, work.contents[put.record.path])
    yield shlex.join(("settle", *(put.record.path for put in puts)))


def _taken_back(work: Work, backs: Sequence[Restore | Remove | Forget]) -> Iterator[str]:
    effects = [work.effects.get(back.owned.path, Effect()) for back in backs]
    units = [effect.unit for effect in effects if effect.unit]
    if units:
        yield f"{shlex.join(('systemctl', 'stop', *units))} || true"
        yield f"{shlex.join(('systemctl', 'disable', '--quiet', '--no-reload', *units))} || true"
    for back in backs:
        match back:
            case Restore(owned, previous):
                yield shlex.join(("bring_back", owned.path, previous.name))
            case Remove(owned):
                yield shlex.join(("rm", "-f", owned.path))
            case Forget():
                pass
    yield from _taking_effect(effects, starts=False)
    yield _record(work.after)


def _taking_effect(effects: Iterable[Effect], *, starts: bool) -> Iterator[str]:
    found = list(dict.fromkeys(effects))
    units = [effect.unit for effect in found if effect.unit]
    if units and starts:
        yield shlex.join(("systemctl", "enable", "--quiet", "--no-reload", *units))
    if units:
        yield "systemctl daemon-reload"
    yield from dict.fromkeys(effect.command for effect in found)
    if units and starts:
        yield shlex.join(("systemctl", "restart", *units))


def _expectation(step: Step) -> str:
    match step:
        case Write(owned, before, _) | Conflict(owned, before, _):
            return shlex.join(("expect", owned.path, before.digest if before else "absent"))
        case Restore(owned) | Remove(owned) if not owned.replaces:
            return shlex.join(("expect", owned.path, owned.digest))
        case _:
            return ""  # while an update was interrupted, either of our two contents may be there


def _real(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if not isinstance(step, (Keep, Show))]


def _record(ownership: Ownership) -> str:
    return noted(RECORD, ownership.to_json().encode())


def _aside(path: str, mode: int, content: bytes) -> str:
    # base64 has no character that ends the here-document or means something to the shell.
    text = b64encode(content).decode()
    return f"{shlex.join(('aside', path, f'{mode:04o}'))} <<'RIGOPS_END'\n{text}\nRIGOPS_END"
