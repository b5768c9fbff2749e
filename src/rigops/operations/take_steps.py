"""Steps on owned files as a command of pyinfra's."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pyinfra.api.command import StringCommand

from rigops.facts.files import FileAt, FileFound
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import FOLDER
from rigops.operations.change import Change, announce
from rigops.operations.taking_steps import script
from rigops.owned import Conflict, Forget, Ownership, Present, Remove, Restore, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinfra.api.facts import FactBase
    from pyinfra.api.host import Host

    from rigops.operations.taking_steps import Work
    from rigops.owned import Step
    from rigops.probe.sections import rigops_state


_OTHERS: Final = 0o077
_NOT_SHOWN: Final = "(not shown)\n"


class TakeSteps(StringCommand):
    """One exec. The engine of rigops joins several that follow each other into one.

    `touches`: the facts that the effects may change. What the steps themselves change is known.
    """

    def __init__(self, work: Work, *, touches: frozenset[type[FactBase[Any]]]) -> None:
        text = script(work)
        super().__init__("sh", "-s", _stdin=text)
        self.size = len(text)
        self.work = work
        self.touches = touches

    @property
    def paths(self) -> tuple[str, ...]:
        """The files whose content is known afterwards. What is put back is not among them."""
        return tuple(self.work.contents)

    def foreseen(self, state: rigops_state.RigopsState) -> rigops_state.RigopsState:
        """The record and the owned files as they will be then."""
        present = dict(state.present)
        for step in self.work.steps:
            match step:
                case Write(record) | Conflict(record):
                    present[record.path] = Present(record.digest, record.mode)
                case Restore(owned) | Remove(owned) | Forget(owned):
                    present.pop(owned.path, None)
                case _:
                    pass
        notes = {path: text.decode() for path, text in self.work.notes.items()}
        return replace(
            state,
            owned=self.work.after.to_json(),
            present=present,
            strays=(),
            units={},
            records={**state.records, **notes},
        )


def ownership(state: rigops_state.RigopsState) -> Ownership:
    return Ownership.parse(state.owned) if state.owned is not None else Ownership()


def present(host: Host, paths: list[str]) -> dict[str, Present | None]:
    """Owned files are seen with the record; any other path has to be looked at."""
    state = host.get_fact(RigopsState)
    owned = ownership(state).files
    found: dict[str, Present | None] = {}
    for path in paths:
        if path in owned:
            found[path] = state.present.get(path)
        else:
            there = host.get_fact(FileAt, path=path)
            found[path] = there.present if there else None
    return found


def tell(host: Host, steps: list[Step], contents: Mapping[str, bytes], *, kind: str) -> None:
    """Every step that changes something, with what stands there now. Of a program, its digest."""
    for step in steps:
        match step:
            case Write(record, before) | Conflict(record, before):
                path, concern = record.path, record.concern
                after: str | None = shown(path, contents[path], record.mode)
            case Restore(owned, previous):
                before, after = Present(owned.digest, owned.mode), f"(as it was: {previous.name})\n"
                path, concern = owned.path, owned.concern
            case Remove(owned) | Forget(owned):
                before, after = Present(owned.digest, owned.mode), None
                path, concern = owned.path, owned.concern
            case _:
                continue
        announce(
            host,
            Change(
                concern=concern,
                kind="unit" if kind == "unit" else "file",
                subject=path,
                before=_stands(host, path, before.mode) if before else None,
                after=after,
            ),
        )


def shown(path: str, content: bytes, mode: int) -> str:
    """What a plan shows of a file."""
    if _is_secret(mode):
        return _NOT_SHOWN
    return _version(digest(content)) if _is_program(path) else content.decode("utf-8", "replace")


def _stands(host: Host, path: str, mode: int) -> str | None:
    if _is_secret(mode):
        return _NOT_SHOWN
    if _is_program(path):
        there = present(host, [path])[path]
        return _version(there.digest) if there else None
    found: FileFound | None = host.get_fact(FileAt, path=path)
    return found.text if found else None


def _is_secret(mode: int) -> bool:
    """What nobody but root may read there is not shown to whoever reads a plan here."""
    return not mode & _OTHERS


def _is_program(path: str) -> bool:
    """One of ours: a plan's reader wants to know which, and not to read pages of it."""
    return path.startswith(f"{FOLDER}/")


def _version(known: str) -> str:
    return f"sha256 {known}\n"


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()
