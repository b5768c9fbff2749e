"""News of a self-check: each problem once, and its end once. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rigops.concerns.monitoring.checking.findings import Found, as_text, rank

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Reported = dict[tuple[str, str], Found]  # by id and subject


@dataclass(frozen=True)
class News:
    """`reported`: what is known once this message is delivered."""

    new: tuple[Found, ...]
    gone: tuple[Found, ...]
    reported: Reported

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)

    @property
    def subject(self) -> str:
        if len(self.new) == 1:
            one = self.new[0]
            return f"{one.status}: {one.id}, {one.subject}: {one.summary}"
        if self.new:
            return f"{len(self.new)} new problems"
        if len(self.gone) == 1:
            return f"well again: {self.gone[0].id}, {self.gone[0].subject}"
        return f"{len(self.gone)} problems are gone"

    @property
    def text(self) -> str:
        parts = []
        if self.new:
            parts.append("New:\n" + as_text(self.new))
        if self.gone:
            parts.append("Gone:\n" + as_text(self.gone))
        return "\n".join(parts)


def news(reported: Reported, findings: Iterable[Found], silent: Collection[str]) -> News:
    """`silent`: sources that did not answer to the end: what those do not name is no news."""
    now = {(one.id, one.subject): one for one in findings}
    problems = {key: one for key, one in now.items() if not one.is_well}
    new = [
        one
        for key, one in problems.items()
        if key not in reported or rank(one.status) < rank(reported[key].status)
    ]
    kept = {key: one for key, one in reported.items() if key not in now and one.source in silent}
    gone = [one for key, one in reported.items() if key not in problems and key not in kept]
    new.sort(key=lambda one: (rank(one.status), one.id, one.subject))
    # A check that was unknown for a while is no news once it is known again.
    doubted = {key for key, one in problems.items() if one.status == "unknown" and key in reported}
    after = {key: reported[key] if key in doubted else one for key, one in problems.items()}
    return News(tuple(new), tuple(gone), {**kept, **after})


def parse_entries(entries: Iterable[Mapping[str, Any]]) -> Reported:
    found: Reported = {}
    for entry in entries:
        words = [str(entry.get(name, "")) for name in ("status", "id", "subject", "summary")]
        one = Found(words[0], words[1], words[2], words[3], str(entry.get("source", "")))
        found[one.id, one.subject] = one
    return found


def as_entries(reported: Reported) -> list[dict[str, str]]:
    return [one.as_json() for one in reported.values()]
