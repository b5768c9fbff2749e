"""Which driver to declare: the answer of the resolver that plan and apply ask as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import chain

from packaging.version import Version

from rigops.catalog import lookup, versions
from rigops.catalog.model import DrivenGpu, Verdict
from rigops.concerns.nvidia_driver.resolver.options import Choice
from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Fix, fix_by_hand
from rigops.doctor.views.driver_state import CONCERN, numbers
from rigops.inventory.spec.model import DriverDeclaration
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.packages import SECTION as PACKAGES


@dataclass(frozen=True)
class DriverAdvice:
    """`declare`: what apply would take; nothing: `by_hand` says what comes first."""

    declare: Mapping[str, object] = field(default_factory=dict)
    by_hand: str = ""

    @property
    def driver(self) -> str:
        return str(self.declare.get("driver", ""))


def advise(examined: Examined) -> DriverAdvice:
    """A host whose package sources were not asked is judged by the catalog alone."""
    wish, choice = examined.spec.driver, examined.choose_driver()
    if choice is not None:
        return _chosen(choice, wish.text if wish else "")
    if wish is not None and not _are_all_bad(examined, wish):
        return DriverAdvice({"driver": wish.text})
    cards = views.driven(examined)
    unknown = [card.name for card in examined.cards if card.driven is None]
    if unknown:
        return DriverAdvice(by_hand=lookup.NOT_KNOWN.format(", ".join(dict.fromkeys(unknown))))
    installed = examined.snapshot[PACKAGES].or_empty.driver
    for version in filter(None, (numbers(package.version) for package in installed)):
        if lookup.is_good(examined.catalog, versions.parse(version), cards) and drives(
            examined, versions.parse(version), cards
        ):
            return DriverAdvice({"driver": versions.branch_of(version)})
    best = lookup.recommended(examined.catalog, cards)
    if best is None:
        return DriverAdvice(by_hand=lookup.why_none(examined.catalog, cards))
    return DriverAdvice({"driver": best.branch})


def blocked(examined: Examined) -> str:
    """Why apply would not bring the declared driver; empty: nothing is known to be in the way."""
    choice = examined.choose_driver()
    refused = choice.declared.blocker if choice and choice.declared else None
    return str(refused or "")


def drives(examined: Examined, version: Version, cards: Iterable[DrivenGpu]) -> bool:
    """Of a branch that the catalog does not know, this is not known to be wrong."""
    branch = lookup.find_branch(examined.catalog, versions.branch_of(version))
    return branch is None or all(lookup.runs_on(branch, card) for card in cards)


def _chosen(choice: Choice, wish: str) -> DriverAdvice:
    refused = choice.declared.blocker if choice.declared else None
    if wish and refused is None:
        return DriverAdvice({"driver": wish})
    if refused and refused.declare:
        return DriverAdvice(refused.declare)
    return DriverAdvice(choice.declare, str(choice.blocker or refused or ""))


def _are_all_bad(examined: Examined, wish: DriverDeclaration) -> bool:
    """Whether every release that would satisfy the declaration is bad for these cards."""
    releases = chain.from_iterable(branch.releases for branch in examined.catalog.drivers)
    meant = [
        version
        for version in (versions.parse(one.version) for one in releases)
        if version in wish.versions
    ]
    return bool(meant) and all(_is_bad(examined, one) for one in meant)


def _is_bad(examined: Examined, version: Version) -> bool:
    """As apply judges, which refuses for a card alone too."""
    found = lookup.verdicts(examined.catalog, version, views.driven(examined))
    return any(verdict.status == "bad" for verdict in found)


def verdicts(examined: Examined, version: Version) -> list[Verdict]:
    """A card alone has no peer, so verdicts on P2P do not concern it."""
    alone = views.gpu_count(examined) == 1 or _is_alone_to_smi(examined)
    return [
        verdict
        for verdict in lookup.verdicts(examined.catalog, version, views.driven(examined))
        if not (alone and verdict.purpose == "p2p")
    ]


def _is_alone_to_smi(examined: Examined) -> bool:
    """As a paste shows it, where nothing else names a second card."""
    report = examined.snapshot[SMI].value
    return (
        report is not None
        and len(examined.cards) == 1
        and views.gpu_count(examined) is None
        and (report.attached == 1 or (views.is_listed_whole(examined) and len(report.gpus) == 1))
    )


def by_deploy(examined: Examined, text: str, by_hand: str) -> Fix:
    """The result of the driver's deploy for the declared driver, or for one to be declared."""
    advice = advise(examined)
    if not advice.declare:
        return fix_by_hand(by_hand)
    return Fix(
        kind="apply+reboot",
        concern=CONCERN,
        declare=advice.declare,
        text=text,
        by_hand=by_hand,
    )
