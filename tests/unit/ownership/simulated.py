"""A host's files in memory, and steps carried out on them one small write at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops.ownership.ownership import (
    Forget,
    Ownership,
    Previous,
    Step,
    Undo,
    WantedFile,
    Write,
    reconcile,
)
from rigops.probe.sections.rigops_state import Present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CONCERNS = ("acs", "kernel_args")


def digest_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class File:
    content: str
    mode: int = 0o644

    def present(self) -> Present:
        return Present(digest_of(self.content), self.mode)

    def wanted(self, concern: str = "acs") -> WantedFile:
        return WantedFile(concern, digest_of(self.content), self.mode)


class PowerCutError(Exception):
    pass


@dataclass
class Host:
    files: dict[str, File]
    record: str = field(default_factory=lambda: Ownership().to_json())
    previous: dict[str, str] = field(default_factory=dict)

    def steps_to(
        self,
        wanted: Mapping[str, tuple[str, File]],
        selected: tuple[str, ...] = CONCERNS,
    ) -> list[Step]:
        ownership = Ownership.parse(self.record)
        present = {
            path: self.files[path].present() if path in self.files else None
            for path in {*wanted, *ownership.files}
        }
        declared = {path: file.wanted(concern) for path, (concern, file) in wanted.items()}
        return reconcile(ownership, declared, present, selected=selected)

    def converge(
        self,
        wanted: Mapping[str, tuple[str, File]],
        *,
        selected: tuple[str, ...] = CONCERNS,
        writes_before_crash: int | None = None,
    ) -> None:
        left = writes_before_crash
        for step in self.steps_to(wanted, selected):
            for write in self._writes(step, {path: file for path, (_, file) in wanted.items()}):
                if left == 0:
                    raise PowerCutError
                left = left if left is None else left - 1
                write()

    def _writes(self, step: Step, contents: Mapping[str, File]) -> Iterator[Callable[[], None]]:
        match step:
            case Write(record=record, backup=backup):
                if backup:
                    yield lambda: self._back_up(record.path, backup)
                yield lambda: self._remember(step)
                yield lambda: self.files.update({record.path: contents[record.path]})
            case Undo(owned=owned):
                if previous := owned.previous:
                    earlier = File(self.previous[previous.name], previous.mode)
                    yield lambda: self.files.update({owned.path: earlier})
                else:
                    yield lambda: self._delete(owned.path)
                yield lambda: self._remember(step)
            case Forget():
                yield lambda: self._remember(step)
            case _:
                pass

    def _back_up(self, path: str, backup: Previous) -> None:
        self.previous[backup.name] = self.files[path].content

    def _remember(self, step: Step) -> None:
        self.record = Ownership.parse(self.record).after(step).to_json()

    def _delete(self, path: str) -> None:
        del self.files[path]
