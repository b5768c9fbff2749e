"""Facts of a host, until a change: pyinfra itself asks every time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

from pyinfra.api.facts import FactBase

from rigops.dataclass import dataclass
from rigops.facts.files import FileAt, FileFound, files_section
from rigops.facts.sections import RigopsState, SectionFact
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.packages.facts import AptWould, Dpkg, packages_section, simulated_section
from rigops.probe.section import Section
from rigops.probe.sections.rigops_state import Present

Fact = TypeVar("Fact")
Key = tuple[type, str, str]
Known = tuple[type, dict[str, object], object]  # a fact, what it was asked, and its value


class FactCache:
    """Facts by class and arguments. Any command that is not a fact's empties it.

    While it guesses, what is not in it is guessed and noted down, so that one exec can fetch all of
    that.
    """

    def __init__(self) -> None:
        self._known: dict[Key, Any] = {}
        self.is_reading = False
        self._guessing = False
        self.to_fetch = FactsToFetch()

    def seed(self, fact: type[FactBase[Fact]], value: Fact, **asked: object) -> None:
        self._known[_key(fact, (), asked)] = value

    def seed_files(self, paths: Collection[str], found: Mapping[str, FileFound]) -> None:
        for path in paths:
            self.seed(FileAt, found.get(path), path=path)

    def get(
        self,
        fetch: Callable[..., Any],
        fact: type[FactBase[Fact]],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Any:
        key = _key(fact, args, kwargs)
        if key in self._known:
            return self._known[key]
        if self._guessing and self.to_fetch.takes(fact):
            return self.to_fetch.note(fact, kwargs)
        with self._fact_is_read():
            value = fetch(fact, *args, **kwargs)
        self._known[key] = value
        return value

    @contextmanager
    def guessing(self) -> Iterator[None]:
        """Afterwards it is known what is to be fetched."""
        self.to_fetch = FactsToFetch()
        self._guessing = True
        try:
            yield
        finally:
            self._guessing = False

    def command_is_run(self) -> bool:
        """Whether it may change something: a fact's own command does not."""
        if not self.is_reading:
            self._known.clear()
        return not self.is_reading

    def steps_are_taken(self, command: FileWorkCommand) -> None:
        """Their outcome is known without asking, but for facts that their effects touch."""
        state = self._known.get(_key(RigopsState, (), {}))
        for fact in command.touches:
            self._known.pop(_key(fact, (), {}), None)
        if state is None:
            return
        foreseen = command.foreseen(state)
        self._known[_key(RigopsState, (), {})] = foreseen
        for step_path in command.paths:
            self._known[_key(FileAt, (), {"path": step_path})] = _found(
                foreseen.present.get(step_path), command.work.contents.get(step_path, b"")
            )

    @contextmanager
    def _fact_is_read(self) -> Iterator[None]:
        before, self.is_reading = self.is_reading, True
        try:
            yield
        finally:
            self.is_reading = before


@dataclass(frozen=True)
class Request:
    """One section of a probe, and what its facts make known."""

    section: Section[Any]
    known: Callable[[Any], Iterable[Known]]


@dataclass
class FactsToFetch:
    """A guess of a section or a file is empty; apt and dpkg know nothing."""

    _facts: dict[type[SectionFact[Any]], None] = field(default_factory=dict)
    _paths: dict[str, None] = field(default_factory=dict)
    _names: dict[tuple[str, ...], None] = field(default_factory=dict)  # of packages
    _words: dict[tuple[tuple[str, ...], str], None] = field(default_factory=dict)  # and source

    def __bool__(self) -> bool:
        return bool(self._facts or self._paths or self._names or self._words)

    @staticmethod
    def takes(fact: type) -> bool:
        return fact in {FileAt, Dpkg, AptWould} or issubclass(fact, SectionFact)

    def note(self, fact: type, asked: Mapping[str, Any]) -> object:
        """Note that it is to be fetched, and guess its value."""
        if fact is FileAt:
            self._paths[asked["path"]] = None
            return None
        if fact is Dpkg:
            self._names[asked["names"]] = None
            return Dpkg.default()
        if fact is AptWould:
            self._words[asked["words"], asked.get("source", "")] = None
            return AptWould.default()
        self._facts[fact] = None
        return fact.section.parse("")  # type: ignore[attr-defined]  # a section's fact, as is left

    def requests(self) -> Iterator[Request]:
        for fact in self._facts:
            yield Request(fact.section, _same([(fact, {})]))
        if self._paths:
            yield Request(
                files_section(self._paths),
                lambda found: [(FileAt, {"path": one}, found.get(one)) for one in self._paths],
            )
        if self._names:
            every = {name for names in self._names for name in names}
            known = _same([(Dpkg, {"names": names}) for names in self._names])
            yield Request(packages_section(every), known)
        for number, (words, source) in enumerate(self._words, 1):
            asked: dict[str, object] = {"words": words, "source": source}
            yield Request(simulated_section(words, number, source), _same([(AptWould, asked)]))


def _same(facts: Sequence[tuple[type, dict[str, object]]]) -> Callable[[object], list[Known]]:
    """The answer of the section is what each of them is."""
    return lambda value: [(fact, asked, value) for fact, asked in facts]


def _found(present: Present | None, content: bytes) -> FileFound | None:
    if present is None:
        return None
    return FileFound(present, content.decode("utf-8", "replace"))


def _key(fact: type, args: tuple[object, ...], kwargs: dict[str, object]) -> Key:
    return fact, repr(args), repr(sorted(kwargs.items()))
