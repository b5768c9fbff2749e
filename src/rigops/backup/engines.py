"""Several engines of a host as one: whichever has the wanted state serves it, and says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar, cast

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.borg import BorgEngine
from rigops.backup.engine import (
    BackupError,
    EngineFailure,
    HostSnapshots,
    RestoreRequest,
    StorageEngine,
)
from rigops.dataclass import dataclass

Answer = TypeVar("Answer")
Failures = Sequence[tuple[str, BackupError]]

_ROWS: Final[tuple[Literal["created", "pruned", "sent", "errors"], ...]] = (
    "created", "pruned", "sent", "errors",
)  # fmt: skip


@dataclass
class Engines:
    """`every`: at least one; of the same state the first that has it serves it."""

    every: tuple[StorageEngine, ...]
    host: str = ""
    name: str = "all"

    def list(self, *, sizes: bool) -> HostSnapshots:
        """One that fails hides nothing of the others."""
        answers, failures = _ask_each(self.every, lambda one: one.list(sizes=sizes))
        if not answers:
            raise _all_failed(failures)
        found = list(answers.values())
        return HostSnapshots(
            subvolumes=tuple(one for host in found for one in host.subvolumes),
            targets=tuple(one for host in found for one in host.targets),
            foreign=tuple(one for host in found for one in host.foreign),
            raw=_merged({name: one.raw for name, one in answers.items()}, failures),
            failures=tuple(
                EngineFailure(engine=name, message=error.message, fix=error.fix)
                for name, error in failures
            ),
        )

    def backup(self, *, dry_run: bool) -> ProgramResult:
        """Each in turn, whatever became of the one before."""
        answers, failures = _ask_each(self.every, lambda one: one.backup(dry_run=dry_run))
        if not answers:
            raise _all_failed(failures)
        if len(self.every) == 1:
            return next(iter(answers.values()))
        (_, first), *others = answers.items()
        joined = first.copy()
        for key in _ROWS:
            if rows := [row for one in answers.values() for row in one.get(key, [])]:
                joined[key] = rows
        if held := [text for one in answers.values() for text in one.get("held", ())]:
            joined["held"] = held
        failed: list[ProgramResult] = [
            {"message": f"{name}: {error.message}", "fix": error.fix} for name, error in failures
        ]
        if failed:
            joined["errors"] = [*joined.get("errors", ()), *failed]
        return cast("ProgramResult", {**joined, **dict(others)})

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> ProgramResult:
        if len(self.every) == 1:
            return _named(self.every[0], self.every[0].restore(request, dry_run=dry_run))
        engine, planned = self.choose(request)
        if dry_run:
            return planned
        return _named(engine, engine.restore(exactly(request, planned), dry_run=False))

    def choose(self, request: RestoreRequest) -> tuple[StorageEngine, ProgramResult]:
        """The one with the newest state of the path that fits, and what it would do."""
        answers, failures = _ask_each(self.every, lambda one: one.restore(request, dry_run=True))
        if not answers:
            raise _all_failed(failures)
        by_name = {one.name: one for one in self.every}
        name = max(answers, key=lambda one: str(answers[one].get("at") or ""))
        return by_name[name], _named(by_name[name], answers[name])

    def drill(self) -> ProgramResult:
        answers, failures = _ask_each(self.every, lambda one: one.drill())
        if not answers:
            raise _all_failed(failures)
        return next(iter(answers.values()))

    def heal(self, *, confirmed: bool) -> ProgramResult:
        """Of borg alone: no other engine has anything to heal."""
        borg = next((one for one in self.every if isinstance(one, BorgEngine)), None)
        if borg is None:
            raise BackupError(self.host, "there is no backup with borg", "declare borg")
        return borg.heal(confirmed=confirmed)


def _ask_each(
    engines: Sequence[StorageEngine], ask: Callable[[StorageEngine], Answer]
) -> tuple[dict[str, Answer], Failures]:
    answers: dict[str, Answer] = {}
    failures = []
    for engine in engines:
        answer = _answer_or_error(engine, ask)
        if isinstance(answer, BackupError):
            failures.append((engine.name, answer))
        else:
            answers[engine.name] = answer
    return answers, failures


def _answer_or_error(
    engine: StorageEngine, ask: Callable[[StorageEngine], Answer]
) -> Answer | BackupError:
    try:
        return ask(engine)
    except BackupError as error:
        return error


def _all_failed(failures: Failures) -> BackupError:
    (_, first), *others = failures
    if not others:
        return first
    host = first.problems[0].host or ""
    message = "; ".join(f"{name}: {error.message}" for name, error in failures)
    return BackupError(host, message, "; ".join(filter(None, (one.fix for _, one in failures))))


def exactly(request: RestoreRequest, planned: ProgramResult) -> RestoreRequest:
    """The planned one, though a newer one may have come meanwhile."""
    return replace(
        request,
        at=str(planned.get("snapshot") or request.at),
        place=str(planned.get("place") or request.place),
    )


def _named(engine: StorageEngine, restored: ProgramResult) -> ProgramResult:
    return {**restored, "engine": restored.get("engine") or engine.name}


def _merged(raw: Mapping[str, Mapping[str, object]], failures: Failures) -> Mapping[str, object]:
    """The document of the first as it was before there were several, the others by their names."""
    (_, first), *others = raw.items()
    if not others and not failures:
        return first
    failed = [
        {"engine": name, "message": error.message, "fix": error.fix} for name, error in failures
    ]
    return {**first, **dict(others), **({"failures": failed} if failed else {})}
