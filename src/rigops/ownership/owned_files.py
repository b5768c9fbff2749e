"""Files, programs, keys and units that rigops owns on a host: written, and undone at their end."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Generator, Mapping
from typing import Any, Final, Literal

from pyinfra.api.command import StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.files import FileAt, FileFound
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import FOLDER, MODE, installed_at, pack
from rigops.ownership.file_work import Effect, FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.ownership import (
    MADE,
    Forget,
    Make,
    OwnedFile,
    Ownership,
    Show,
    Step,
    Undo,
    WantedFile,
    Write,
    digest,
    reconcile,
)
from rigops.plan.change import Change
from rigops.plan.commands import blocked
from rigops.plan.context import announce, may_undo, notice, wanted_paths
from rigops.probe.sections.rigops_state import Present
from rigops.probe.sections.units import SYSTEM_UNITS

_FILE_MODE: Final = 0o644
_KEY_MODE: Final = 0o600
_OTHERS: Final = 0o077
_NOT_SHOWN: Final = "(not shown)\n"


@operation()
def owned_file(
    *,
    concern: str,
    path: str,
    content: str | bytes,
    mode: int = _FILE_MODE,
    effect: str = "",
    unit: str = "",
    live: bool = True,
    touches: frozenset[type[FactBase[Any]]] = frozenset(),
) -> Generator[StringCommand, None, None]:
    """Have this file with this content. A ``undo_undeclared`` of the same concern ends the deploy.

    Files that only root may read there are not shown in a plan.

    + concern: the deploy that wants it
    + effect: a shell command that makes a new content count
    + unit: one of systemd's that is enabled and started then
    + live: whether the content counts already, where that is known; if not, the effect is run
    + touches: the facts that the effect may change
    """
    data = content.encode() if isinstance(content, str) else content
    wanted = WantedFile(concern, digest(data), mode)
    yield from _owned(
        wanted, path=path, content=data, effect=Effect(effect, unit), live=live, touches=touches
    )


@operation()
def owned_key(
    *, concern: str, path: str, public_key: str, touches: frozenset[type[FactBase[Any]]]
) -> Generator[StringCommand, None, None]:
    """Have an ssh key of the host's own, in the record before it is made. It never leaves the host.

    + concern: the deploy that wants it
    + public_key: as it is there; empty where there is none
    + touches: the facts that have it
    """
    wanted_paths(host, concern).add(path)
    state = host.get_fact(RigopsState)
    owned, found, drift = Ownership.from_state(state), state.present.get(path), ""
    if trace := state.unrecorded.get(path):  # no fact reads what is in it
        found, drift = Present.from_stat(trace.status, ""), "it is not recorded"
    if found and found.kind:
        yield blocked(host, concern, f"{path} is {found.kind}, no key: move it away")
        return
    if found:
        drift = drift or WantedFile(concern, MADE, _KEY_MODE).drift(found)
    if found and public_key and not drift:
        host.noop(f"{path} is there")
        return
    announce(host, Change(concern, "file", path, _NOT_SHOWN if found else None, _NOT_SHOWN, drift))
    record = OwnedFile(path=path, concern=concern, digest=MADE, mode=_KEY_MODE)
    work = FileWork(
        before=owned,
        steps=(Make(record),),
        effects={path: Effect(key_made(path, host.name))},
    )
    yield FileWorkCommand(work, touches=touches)


@operation()
def owned_program(*, concern: str, program: str) -> Generator[StringCommand, None, None]:
    """Have this host-side program of rigops installed. ``undo_undeclared`` ends it.

    + concern: the deploy that wants it
    + program: its name, such as ``acs``
    """
    packed = pack(program)
    yield from _owned(
        WantedFile(concern, packed.digest, MODE),
        path=installed_at(program),
        content=packed.text.encode(),
    )


@operation()
def owned_unit(
    *, concern: str, unit: str, content: str, stays_active: bool = True
) -> Generator[StringCommand, None, None]:
    """Have this unit of systemd's, enabled and started. ``undo_undeclared`` ends it.

    + concern: the deploy that wants it
    + unit: its name, such as ``rigops-limits.service``
    + stays_active: False where it runs and ends, so that a later event can start it again
    """
    found = host.get_fact(RigopsState).units.get(unit)
    if found and found.enabled == "masked":
        yield blocked(host, concern, f"{unit} is masked: sudo systemctl unmask {unit}")
        return
    for path in found.drop_ins if found else ():
        text = f"{path} changes {unit}, and rigops did not write it: sudo systemctl revert {unit}"
        notice(host, concern, text)
    # Unknown is no reason to restart it: the next run asks again.
    has_ended = not stays_active and (found and found.active) == "inactive"
    runs = found is None or found.runs or (has_ended and found.enabled == "enabled")
    yield from _owned(
        WantedFile(concern, digest(content.encode()), _FILE_MODE),
        path=SYSTEM_UNITS + unit,
        content=content.encode(),
        effect=Effect(unit=unit),
        kind="unit",
        live=runs,
    )


@operation()
def undo_undeclared(
    *, concern: str, declared: bool = True, effects: Mapping[str, str] | None = None
) -> Generator[FileWorkCommand, None, None]:
    """Undo what no operation of this concern wants any more. It comes last in a deploy.

    + declared: whether anything of the concern is declared; else this needs consent of its own
    + effects: for each path, the shell command that makes its absence count
    """
    state = host.get_fact(RigopsState)
    owned = Ownership.from_state(state)
    wanted = wanted_paths(host, concern)
    gone = [path for path in owned.paths_of(concern) if path not in wanted]
    if gone and not declared and not may_undo(host, concern, gone):
        host.noop(f"{', '.join(gone)} stay: undoing them was not confirmed")
        return
    there = {path: state.present.get(path) for path in gone}
    steps = reconcile(owned.only(gone), {}, there, selected={concern})
    notice_left_alone(host, concern, steps)
    commands = effects or {}
    work = FileWork(
        before=owned,
        steps=tuple(steps),
        effects={path: _absence(path, commands.get(path, "")) for path in gone},
        strays=state.strays,
    )
    if not work:
        host.noop(f"nothing of {concern} is to be undone")
        return
    _announce_steps(host, steps, {})
    for path in state.strays:
        announce(host, Change(concern, "file", path, "left by an interrupted run\n", None))
    yield FileWorkCommand(work, touches=frozenset())


def _owned(
    wanted: WantedFile,
    *,
    path: str,
    content: bytes,
    effect: Effect = Effect(),  # noqa: B008 - it is frozen
    kind: Literal["file", "unit"] = "file",
    live: bool = True,
    touches: frozenset[type[FactBase[Any]]] = frozenset(),
) -> Generator[StringCommand, None, None]:
    wanted_paths(host, wanted.concern).add(path)
    owned = Ownership.from_state(host.get_fact(RigopsState))
    there = present(host, [path])
    if (found := there[path]) and found.kind:
        reason = f"{path} is {found.kind}, declared a file: move it away and run this again"
        yield blocked(host, wanted.concern, reason)
        return
    steps = reconcile(owned.only([path]), {path: wanted}, there, selected={wanted.concern})
    work = FileWork(
        before=owned,
        steps=tuple(steps),
        contents={path: content},
        effects={path: effect},
        more_effects=() if live else (effect,),
    )
    if not work:
        host.noop(f"{path} is as declared")
        return
    if any(isinstance(step, Write) for step in steps):
        _announce_steps(host, steps, {path: content}, kind)
    else:
        text = _shown(path, content, wanted.mode)
        announce(host, Change(wanted.concern, kind, path, text, text))
    yield FileWorkCommand(work, touches=touches)


def _absence(path: str, command: str) -> Effect:
    name = path.removeprefix(SYSTEM_UNITS)
    is_unit = name != path and "/" not in name and "@." not in name  # a template never runs
    return Effect(command, unit=name if is_unit else "")


def notice_left_alone(host: Host, concern: str, steps: list[Step]) -> None:
    for step in steps:
        if isinstance(step, Show):
            text = f"{step.owned.path} is no longer declared, but was changed by hand: left alone"
            notice(host, concern, text)


def is_changed_by_hand(host: Host, path: str) -> bool:
    """Whether the file has neither what rigops wrote nor what was there before that."""
    state = host.get_fact(RigopsState)
    owned = Ownership.from_state(state).files.get(path)
    found = state.present.get(path)
    if owned is None or found is None or owned.has_ours(found):
        return False
    return not (owned.previous and owned.previous.is_in_place(found))


def present(host: Host, paths: list[str]) -> dict[str, Present | None]:
    """Owned files were collected with the record; any other path is a fact of its own."""
    state = host.get_fact(RigopsState)
    owned = Ownership.from_state(state).files
    found: dict[str, Present | None] = {}
    for path in paths:
        if path in owned:
            found[path] = state.present.get(path)
        else:
            there = host.get_fact(FileAt, path=path)
            found[path] = there.present if there else None
    return found


def _announce_steps(
    host: Host,
    steps: list[Step],
    contents: Mapping[str, bytes],
    kind: Literal["file", "unit"] = "file",
) -> None:
    """Every step that changes something, with what is there now. Of a program, its digest."""
    recorded = Ownership.from_state(host.get_fact(RigopsState)).files
    for step in steps:
        drift = ""
        match step:
            case Write(record, before):
                path, concern = record.path, record.concern
                after: str | None = _shown(path, contents[path], record.mode)
                if before:
                    drift = WantedFile(concern, record.digest, record.mode).drift(before)
            case Undo(owned) | Forget(owned):
                before, after = Present(owned.digest, owned.mode), None
                if isinstance(step, Undo) and owned.previous:
                    after = f"(as it was: {owned.previous.name})\n"
                path, concern = owned.path, owned.concern
            case _:
                continue
        # The mode found there does not decide: a secret may have been opened to all.
        known = recorded.get(path)
        is_secret = after == _NOT_SHOWN or (known is not None and _is_secret(known.mode))
        now = _shown_now(host, path, before.mode, is_secret=is_secret) if before else None
        by_hand = isinstance(step, Write) and step.by_hand
        announce(host, Change(concern, kind, path, now, after, drift, by_hand))


def _shown(path: str, content: bytes, mode: int) -> str:
    """The text of a file in a plan."""
    if _is_secret(mode):
        return _NOT_SHOWN
    return _version(digest(content)) if _is_program(path) else content.decode("utf-8", "replace")


def _shown_now(host: Host, path: str, mode: int, *, is_secret: bool) -> str | None:
    if is_secret or _is_secret(mode):
        return _NOT_SHOWN
    if _is_program(path):
        there = present(host, [path])[path]
        return _version(there.digest) if there else None
    found: FileFound | None = host.get_fact(FileAt, path=path)
    return found.text if found else None


def _is_secret(mode: int) -> bool:
    """Files that only root may read on the host are not shown in a plan."""
    return not mode & _OTHERS


def _is_program(path: str) -> bool:
    """One of ours: a plan shows which, and not its text."""
    return path.startswith(f"{FOLDER}/")


def _version(known: str) -> str:
    return f"sha256 {known}\n"


def key_made(path: str, host: str) -> str:
    """Shell that has it and its public half, for root alone. One that is there stays."""
    new = f"{path}.rigops-new"
    make = shlex.join(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"rigops@{host}"))
    return f"""\
mkdir -p {posixpath.dirname(path)}
(
    umask 077
    if [ -s {path} ]; then
        chown 0:0 {path}
        chmod 0600 {path}
        ssh-keygen -y -f {path} >{path}.pub
    else
        rm -f {new} {new}.pub
        {make} -f {new} </dev/null >&2
        mv -f {new}.pub {path}.pub
        mv -f {new} {path}
    fi
)"""
