"""Findings that one cause explains, told together: the cause first, its effects with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.probe.pcie_routes import route_to

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.catalog.stories import Fact, Part, StoryRule
    from rigops.doctor.finding import Finding
    from rigops.probe.snapshot import HostSnapshot

CAUSE: Final = "cause"  # in the data of a finding: the id of the check that tells why
DEVICES: Final = "devices"  # addresses that it is about, besides its subject
_TOLD: Final = frozenset({"fail", "warn"})
_MAY_BE_TOLD: Final = frozenset({*_TOLD, "unknown"})
_GPU: Final = "gpu "
_FIELD: Final = re.compile(r"\{([a-z]+)\}")
_ADDRESS: Final = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

PortsAbove = Callable[[str], Collection[str]]  # by the address of a card


@dataclass(frozen=True)
class Story:
    """Findings are meant by their places in the list that it was told of."""

    id: str
    title: str
    text: str
    cause: int
    effects: tuple[int, ...]

    def as_json(self, findings: Sequence[Finding]) -> dict[str, object]:
        cause, *effects = (
            {"id": findings[at].id, "subject": findings[at].subject}
            for at in (self.cause, *self.effects)
        )
        return {
            "id": self.id,
            "title": self.title,
            "text": self.text,
            "cause": cause,
            "explains": effects,
        }


def put_together(
    findings: Sequence[Finding], snapshot: HostSnapshot, catalog: Catalog
) -> tuple[tuple[Finding, ...], tuple[Story, ...]]:
    """The findings, a cause before its effects, and the stories of them."""

    def ports_above(card: str) -> Collection[str]:
        route = route_to(snapshot, card)
        return route.ports if route else ()

    return _causes_first(findings, tell(findings, catalog.stories_by_causes, ports_above))


def _causes_first(
    findings: Sequence[Finding], stories: Sequence[Story]
) -> tuple[tuple[Finding, ...], tuple[Story, ...]]:
    """A cause takes the place of the first of its effects where that is before it."""
    first = {at: (at, 1) for at in range(len(findings))}
    for one in stories:
        first[one.cause] = min(first[one.cause], *((at, 0) for at in one.effects))
    order = sorted(first, key=lambda at: first[at])
    new = {old: at for at, old in enumerate(order)}
    moved = (
        replace(one, cause=new[one.cause], effects=tuple(sorted(new[at] for at in one.effects)))
        for one in stories
    )
    return tuple(findings[at] for at in order), tuple(moved)


def tell(
    findings: Sequence[Finding],
    rules_for: Callable[[Collection[str]], Iterable[StoryRule]],
    ports_above: PortsAbove,
) -> tuple[Story, ...]:
    """A finding is in the stories of one rule, the first that it fits."""
    told = {one.id for one in findings if one.status in _TOLD}
    stories: list[Story] = []
    taken: set[int] = set()
    for rule in rules_for(told) if told else ():
        found = list(_of_rule(rule, findings, taken, ports_above))
        taken |= {at for one in found for at in (one.cause, *one.effects)}
        stories += found
    return tuple(stories)


def _of_rule(
    rule: StoryRule, findings: Sequence[Finding], taken: Collection[int], ports_above: PortsAbove
) -> Iterator[Story]:
    """Several causes of one kind may explain the same, such as the count of lost cards."""
    causes: set[int] = set()
    effects: set[int] = set()
    free = {
        at: one for at, one in enumerate(findings) if one.status in _MAY_BE_TOLD and at not in taken
    }
    begins = (*rule.cause, *rule.needs)
    known = [one for one in free.values() if any(_is_of(part, one) for part in begins)]
    all_places = frozenset[str]().union(*map(_places, known))
    for part in rule.cause:
        for at, cause in free.items():
            if at in causes | effects or not _is_of(part, cause):
                continue
            others = {one: free[one] for one in free.keys() - causes - {at}}
            nearness = _Nearness(_places(cause), all_places, ports_above)
            if found := _effects(rule, cause, others, nearness):
                causes.add(at)
                effects.update(found)
                text = _filled(rule.text, cause, [findings[one] for one in found])
                yield Story(rule.id, rule.title, text, at, found)


def _effects(
    rule: StoryRule, cause: Finding, others: Mapping[int, Finding], near: _Nearness
) -> tuple[int, ...]:
    needed: set[int] = set()
    if rule.needs:
        needed = _matching(rule.needs, others, near)
        if not needed and not any(_is_of(part, cause) for part in rule.needs):
            return ()
        places = near.places.union(*(_places(others[at]) for at in needed))
        near = replace(near, places=places)
    found = needed | _matching(rule.explains, others, near)
    ids = {cause.id, *(others[at].id for at in found)}
    return tuple(at for at in sorted(found) if others[at].data.get(CAUSE, cause.id) in ids)


def _matching(parts: Iterable[Part], others: Mapping[int, Finding], near: _Nearness) -> set[int]:
    return {
        at
        for part in parts
        for at, one in others.items()
        if _is_of(part, one) and near.has(part, one)
    }


def _is_of(part: Part, finding: Finding) -> bool:
    return (
        finding.id in part.ids
        and finding.status in part.statuses
        and all(_has(finding.data, fact) for fact in part.facts)
        and (not part.named or CAUSE in finding.data)
    )


def _has(data: Mapping[str, object], fact: Fact) -> bool:
    value = data.get(fact.key)
    values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return bool(values) and (not fact.values or any(str(one) in fact.values for one in values))


@dataclass(frozen=True)
class _Nearness:
    """`places`: of a cause and of what it needs; `all_places`: of all such causes."""

    places: frozenset[str]
    all_places: frozenset[str]
    ports_above: PortsAbove

    def has(self, part: Part, finding: Finding) -> bool:
        own = _places(finding)
        if part.on == "host":
            return True
        if part.on == "cards" and not own <= self.all_places:
            return False
        if part.on != "path" or not own.isdisjoint(self.places):
            return not own.isdisjoint(self.places)
        return self._is_above(own, self.places) or self._is_above(self.places, own)

    def _is_above(self, ports: Collection[str], cards: Iterable[str]) -> bool:
        return any(port in ports for card in cards for port in self.ports_above(card))


def _places(finding: Finding) -> frozenset[str]:
    """A line that names no card has a place of its own: all of that kind belong together."""
    subject = finding.subject.rpartition("/")[2].removeprefix(_GPU)
    devices = finding.data.get(DEVICES)
    known = {str(one) for one in devices} if isinstance(devices, (list, tuple)) else set()
    is_device = _ADDRESS.fullmatch(subject) or finding.subject.startswith(_GPU)
    return frozenset({subject, *known} if is_device else known)


def _filled(text: str, cause: Finding, effects: Sequence[Finding]) -> str:
    cards = dict.fromkeys(
        one.subject.removeprefix(_GPU).removeprefix("0000:")
        for one in (cause, *effects)
        if _ADDRESS.fullmatch(one.subject.removeprefix(_GPU))
    )
    known: dict[str, object] = {
        **cause.data,
        "cards": f"GPU {', '.join(cards)}" if cards else "a card",
        "summary": cause.summary,
    }
    return _FIELD.sub(lambda field: str(known.get(field[1]) or "?"), text)
