"""All answers of one visit to a host: a typed one for each section."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle, Collected
    from rigops.probe.section import Section

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Answer(Generic[Facts]):
    """The output of one section, parsed when first asked for."""

    section: Section[Facts]
    collected: Collected | None

    @cached_property
    def value(self) -> Facts | None:
        """None: not collected, which is never healthy. Lines of an incomplete output are true."""
        if self.collected is None or not (
            self.collected.is_complete or self.collected.text.strip()
        ):
            return None
        parse, parsed = self.section.parse, self.collected.parsed
        if parse not in parsed:
            parsed[parse] = parse(self.collected.text)
        return cast("Facts", parsed[parse])

    @cached_property
    def or_empty(self) -> Facts:
        """Only to look for what is there: that something is not there takes `is_complete`."""
        return self.section.parse("") if self.value is None else self.value

    @property
    def is_complete(self) -> bool:
        """Collected to its end: what the output does not name is not there."""
        return self.collected is not None and self.collected.is_complete

    @property
    def is_incomplete(self) -> bool:
        """Asked for, and not answered to the end."""
        return self.collected is not None and not self.collected.is_complete

    @property
    def unparsed(self) -> tuple[str, ...]:
        found: tuple[str, ...] = getattr(self.value, "unparsed", ())
        return found

    @property
    def is_exhaustive(self) -> bool:
        """Complete, and every piece of it was parsed."""
        return self.is_complete and not self.unparsed

    @property
    def timed_out(self) -> bool:
        return self.collected is not None and self.collected.timed_out

    @property
    def without_root(self) -> bool:
        """Asked for, and not as root: it may say less than there is."""
        return self.collected is not None and not self.collected.root


@dataclass(frozen=True)
class HostSnapshot:
    """`snapshot[pci.SECTION]` is the answer of that section."""

    bundle: Bundle
    answers: dict[str, Answer[Any]] = field(default_factory=dict, repr=False)  # those asked for

    def __getitem__(self, section: Section[Facts]) -> Answer[Facts]:
        found = self.answers.get(section.name)
        if found is None:
            found = Answer(section, self.bundle.sections.get(section.name))
            self.answers[section.name] = found
        return found

    @property
    def collected_at(self) -> str | None:
        """By the clock of the collecting machine, where one collected it."""
        return self.bundle.collected_at

    @property
    def had_root(self) -> bool:
        """Whether any section was asked as root: then the others could have been, too."""
        return any(one.root for one in self.bundle.sections.values())
