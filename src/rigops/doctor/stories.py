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
    if len(told) < 2:  # noqa: PLR2004 - a cause and an effect
        return ()
    stories: list[Story] = []
    taken: set[int] = set()
    for rule in rules_for(told):
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
    free = [at for at in range(len(findings)) if at not in taken]
    for part in rule.cause:
        for at in free:
            if at in causes | effects or not _is_of(part, findings[at]):
                continue
            others = [one for one in free if one not in causes and one != at]
            if found := _effects(rule, findings, at, others, ports_above):
                causes.add(at)
                effects.update(found)
                text = _filled(rule.text, [findings[one] for one in (at, *found)])
                yield Story(rule.id, rule.title, text, at, found)


def _effects(
    rule: StoryRule,
    findings: Sequence[Finding],
    cause: int,
    free: Sequence[int],
    ports_above: PortsAbove,
) -> tuple[int, ...]:
    places = _places(findings[cause])
    needed: list[int] = []
    if rule.needs:
        needed = _matching(rule.needs, findings, free, places, ports_above)
        if not needed and not any(_is_of(part, findings[cause]) for part in rule.needs):
            return ()
        places = places.union(*(_places(findings[at]) for at in needed))
    explained = _matching(rule.explains, findings, free, places, ports_above)
    found = sorted({*needed, *explained})
    ids = {findings[cause].id, *(findings[at].id for at in found)}
    return tuple(at for at in found if findings[at].data.get(CAUSE, findings[cause].id) in ids)


def _matching(
    parts: Iterable[Part],
    findings: Sequence[Finding],
    free: Iterable[int],
    places: Collection[str],
    ports_above: PortsAbove,
) -> list[int]:
    return [
        at
        for at in free
        if any(
            _is_of(part, findings[at]) and _belongs(part, findings[at], places, ports_above)
            for part in parts
        )
    ]


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


def _belongs(
    part: Part, finding: Finding, places: Collection[str], ports_above: PortsAbove
) -> bool:
    own = _places(finding)
    if part.on == "host" or not own.isdisjoint(places):
        return True
    if part.on == "card":
        return False
    above_own = {port for one in own for port in ports_above(one)}
    above_those = {port for one in places for port in ports_above(one)}
    return not (above_own.isdisjoint(places) and above_those.isdisjoint(own))


def _places(finding: Finding) -> frozenset[str]:
    """A line that names no card has a place of its own: all of that kind belong together."""
    subject = finding.subject.rpartition("/")[2].removeprefix(_GPU)
    devices = finding.data.get(DEVICES)
    known = {str(one) for one in devices} if isinstance(devices, (list, tuple)) else set()
    is_device = _ADDRESS.fullmatch(subject) or finding.subject.startswith(_GPU)
    return frozenset({subject, *known} if is_device else known)


def _filled(text: str, members: Sequence[Finding]) -> str:
    cards = dict.fromkeys(
        one.subject.removeprefix(_GPU).removeprefix("0000:")
        for one in members
        if _ADDRESS.fullmatch(one.subject.removeprefix(_GPU))
    )
    known: dict[str, object] = {}
    for one in reversed(members):
        known |= one.data
    known["cards"] = f"GPU {', '.join(cards)}" if cards else "a card"
    return _FIELD.sub(lambda field: str(known.get(field[1]) or "?"), text)
