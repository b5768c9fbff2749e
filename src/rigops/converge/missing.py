"""Facts that a plan wanted and nobody has looked at yet, so that one look can bring them all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rigops.facts.apt import AptWould, Dpkg, packages_section, simulated_section
from rigops.facts.files import FileAt, files_section
from rigops.facts.sections import SectionFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rigops.probe.section import Section

Known = tuple[type, dict[str, object], object]  # a fact, what it was asked, and its value


@dataclass(frozen=True)
class Look:
    """One section of a probe, and what its facts make known."""

    section: Section[Any]
    known: Callable[[Any], Iterable[Known]]


@dataclass
class Missing:
    """What a section or a file is guessed to be is empty; apt and dpkg know nothing."""

    _facts: dict[type[SectionFact[Any]], None] = field(default_factory=dict)
    _paths: dict[str, None] = field(default_factory=dict)
    _names: dict[tuple[str, ...], None] = field(default_factory=dict)  # of packages, by wish
    _words: dict[tuple[tuple[str, ...], str], None] = field(default_factory=dict)  # and source

    def __bool__(self) -> bool:
        return bool(self._facts or self._paths or self._names or self._words)

    @staticmethod
    def takes(fact: type) -> bool:
        return fact in {FileAt, Dpkg, AptWould} or issubclass(fact, SectionFact)

    def note(self, fact: type, asked: Mapping[str, Any]) -> object:
        """Write down that it is wanted, and guess what it is."""
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

    def looks(self) -> Iterator[Look]:
        for fact in self._facts:
            yield Look(fact.section, _whole([(fact, {})]))
        if self._paths:
            yield Look(
                files_section(self._paths),
                lambda found: [(FileAt, {"path": one}, found.get(one)) for one in self._paths],
            )
        if self._names:
            every = {name for names in self._names for name in names}
            known = _whole([(Dpkg, {"names": names}) for names in self._names])
            yield Look(packages_section(every), known)
        for number, (words, source) in enumerate(self._words, 1):
            asked: dict[str, object] = {"words": words, "source": source}
            yield Look(simulated_section(words, number, source), _whole([(AptWould, asked)]))


def _whole(facts: Sequence[tuple[type, dict[str, object]]]) -> Callable[[object], list[Known]]:
    """The answer of the section is what each of them is."""
    return lambda value: [(fact, asked, value) for fact, asked in facts]
