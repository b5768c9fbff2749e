"""Findings that one cause explains, shown together: the cause first, its effects with it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog
from rigops.catalog.stories import Fact, Part, StoryRule
from rigops.dataclass import dataclass
from rigops.doctor.finding import Finding
from rigops.probe.pcie_routes import route_to

if TYPE_CHECKING:
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
    """Findings are meant by their places in the list that they were found in."""

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


def unexplained(findings: Sequence[Finding], stories: Iterable[Story]) -> tuple[Finding, ...]:
    """Those that no other one explains: the fix of a cause ends its effects too."""
    explained = {at for story in stories for at in story.effects}
    return tuple(one for at, one in enumerate(findings) if at not in explained)


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
    free = {at: one for at, one in enumerate(findings) if one.status in _MAY_BE_TOLD}
    for rule in rules_for(told) if told else ():
        found = list(_of_rule(rule, free, ports_above))
        for at in {at for one in found for at in (one.cause, *one.effects)}:
            del free[at]
        stories += found
    return tuple(stories)


def _of_rule(
    rule: StoryRule, findings: Mapping[int, Finding], ports_above: PortsAbove
) -> Iterator[Story]:
    """Several causes of one kind may explain the same, such as the count of lost cards."""
    begins = [
        one for one in findings.values() for part in (*rule.cause, *rule.needs) if _is_of(part, one)
    ]
    places = frozenset[str]().union(*map(_places, begins))
    needs = [_Sought(part, findings, places, ports_above) for part in rule.needs]
    explains = [_Sought(part, findings, places, ports_above) for part in rule.explains]
    causes: set[int] = set()
    effects: set[int] = set()
    for part in rule.cause:
        for at, cause in findings.items():
            if at in causes | effects or not _is_of(part, cause):
                continue
            others = partial(_others, causes, at)
            own = _places(cause)
            needed = others(needs, own)
            if needs and not needed and not any(_is_of(part, cause) for part in rule.needs):
                continue
            own = own.union(*(_places(findings[other]) for other in needed))
            found = needed | others(explains, own)
            ids = {cause.id, *(findings[other].id for other in found)}
            told = [other for other in found if findings[other].data.get(CAUSE, cause.id) in ids]
            if told:
                causes.add(at)
                effects.update(told)
                text = _filled(rule.text, cause, [findings[other] for other in sorted(told)])
                yield Story(rule.id, rule.title, text, at, tuple(sorted(told)))


def _others(
    causes: Collection[int], cause: int, parts: Iterable[_Sought], places: Collection[str]
) -> set[int]:
    near = {at for sought in parts for at in sought.near(places)}
    return {at for at in near if at != cause and at not in causes}


class _Sought:
    """Findings of a part, by their places: there may be as many as lines in a paste."""

    def __init__(
        self,
        part: Part,
        findings: Mapping[int, Finding],
        places: frozenset[str],
        ports_above: PortsAbove,
    ) -> None:
        """`places`: of all that the rule may begin with."""
        self._on = part.on
        self._ports_above = ports_above
        self._all = [at for at, one in findings.items() if _is_of(part, one)]
        self._at: dict[str, list[int]] = defaultdict(list)
        self._below: dict[str, list[int]] = defaultdict(list)
        for at in () if part.on == "host" else self._all:
            own = _places(findings[at])
            if part.on == "cards" and not own <= places:
                continue
            for place in own:
                self._at[place].append(at)
            for port in self._ports(own):
                self._below[port].append(at)

    def near(self, places: Collection[str]) -> Iterable[int]:
        if self._on == "host":
            return self._all
        same = (self._at.get(one, ()) for one in (*places, *self._ports(places)))
        below = (self._below.get(one, ()) for one in places)
        return chain.from_iterable((*same, *below))

    def _ports(self, places: Iterable[str]) -> set[str]:
        is_path = self._on == "path"
        return {port for one in places for port in self._ports_above(one)} if is_path else set()


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
