"""Files, programs and units that rigops owns on a host: written, and taken back at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.sections import RigopsState
from rigops.hostside.packing import MODE, installed_at, pack
from rigops.operations.change import Change, announce, notice, story
from rigops.operations.consent import may_undo
from rigops.operations.take_steps import TakeSteps, digest, ownership, present, shown, tell
from rigops.operations.taking_steps import Effect, Work
from rigops.owned import Conflict, Show, WantedFile, Write, reconcile
from rigops.probe.sections.units import SYSTEM_UNITS

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pyinfra.api.facts import FactBase

    from rigops.probe.sections.rigops_state import OwnedUnit

_FILE_MODE: Final = 0o644


@operation()
def owned_file(
    *,
    concern: str,
    path: str,
    content: str | bytes,
    mode: int = _FILE_MODE,
    effect: str = "",
    live: bool = True,
    touches: frozenset[type[FactBase[Any]]] = frozenset(),
) -> Generator[TakeSteps, None, None]:
    """Have this file with this content. A ``taken_back`` of the same concern ends the deploy.

    What only root may read there is not shown in a plan.

    + concern: the deploy that wants it
    + effect: a shell command that makes a new content count
    + live: whether the content counts already, where it can be told; if not, the effect is run
    + touches: the facts that the effect may change
    """
    yield from _hold(
        WantedFile(concern, digest(_bytes(content)), mode),
        path=path,
        content=_bytes(content),
        effect=Effect(effect),
        kind="file",
        live=live,
        touches=touches,
    )


@operation()
def owned_program(*, concern: str, program: str) -> Generator[TakeSteps, None, None]:
    """Have this host-side program of rigops installed. ``taken_back`` ends it.

    + concern: the deploy that wants it
    + program: its name, such as ``acs``
    """
    packed = pack(program)
    yield from _hold(
        WantedFile(concern, packed.digest, MODE),
        path=installed_at(program),
        content=packed.text.encode(),
        effect=Effect(),
        kind="file",
        live=True,
        touches=frozenset(),
    )


@operation()
def owned_unit(*, concern: str, unit: str, content: str) -> Generator[TakeSteps, None, None]:
    """Have this unit of systemd's, enabled and started. ``taken_back`` ends it.

    + concern: the deploy that wants it
    + unit: its name, such as ``rigops-limits.service``
    """
    yield from _hold(
        WantedFile(concern, digest(content.encode()), _FILE_MODE),
        path=SYSTEM_UNITS + unit,
        content=content.encode(),
        effect=Effect(unit=unit),
        kind="unit",
        live=_runs(host.get_fact(RigopsState).units.get(unit)),
        touches=frozenset(),
    )


@operation()
def taken_back(
    *, concern: str, declared: bool = True, effects: Mapping[str, str] | None = None
) -> Generator[TakeSteps, None, None]:
    """Take back what no operation of this concern wants any more. It comes last in a deploy.

    + declared: whether anything of the concern is declared; else this needs consent of its own
    + effects: for each path, the shell command that makes its absence count
    """
    state = host.get_fact(RigopsState)
    owned = ownership(state)
    wanted = story(host).kept.get(concern, set())
    gone = [
        path for path, file in owned.files.items() if file.concern == concern and path not in wanted
    ]
    if gone and not declared and not may_undo(host, concern, gone):
        host.noop(f"{', '.join(gone)} stay: nobody agreed to take them back")
        return
    there = {path: state.present.get(path) for path in gone}
    steps = reconcile(owned.only(gone), {}, there, selected={concern})
    for step in steps:
        if isinstance(step, Show):
            text = f"{step.owned.path} is no longer declared, but somebody changed it: left alone"
            notice(host, concern, text)
    commands = effects or {}
    work = Work(
        before=owned,
        steps=tuple(steps),
        effects={path: _absence(path, commands.get(path, "")) for path in gone},
        strays=state.strays,
    )
    if not work:
        host.noop(f"nothing of {concern} is to be taken back")
        return
    tell(host, steps, {}, kind="file")
    for path in state.strays:
        announce(host, Change(concern, "file", path, "left by an interrupted run\n", None))
    yield TakeSteps(work, touches=frozenset())


def _hold(
    wanted: WantedFile,
    *,
    path: str,
    content: bytes,
    effect: Effect,
    kind: Literal["file", "unit"],
    live: bool,
    touches: frozenset[type[FactBase[Any]]],
) -> Generator[TakeSteps, None, None]:
    story(host).kept.setdefault(wanted.concern, set()).add(path)
    owned = ownership(host.get_fact(RigopsState))
    there = present(host, [path])
    steps = reconcile(owned.only([path]), {path: wanted}, there, selected={wanted.concern})
    work = Work(
        before=owned,
        steps=tuple(steps),
        contents={path: content},
        effects={path: effect},
        anew=() if live else (effect,),
    )
    if not work:
        host.noop(f"{path} is as declared")
        return
    if any(isinstance(step, (Write, Conflict)) for step in steps):
        tell(host, steps, {path: content}, kind=kind)
    else:
        text = shown(path, content, wanted.mode)
        announce(host, Change(wanted.concern, kind, path, f"(not in force)\n{text}", text))
    yield TakeSteps(work, touches=touches)


def _absence(path: str, command: str) -> Effect:
    name = path.removeprefix(SYSTEM_UNITS)
    is_unit = name != path and "/" not in name
    return Effect(command, unit=name if is_unit else "")


def _runs(unit: OwnedUnit | None) -> bool:
    """Unknown is no reason to start it anew: it is the next look that tells."""
    return unit is None or (unit.active in {"active", "activating"} and unit.enabled == "enabled")


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
