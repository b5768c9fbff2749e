"""Whether a version of the driver is fit for a machine, by the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rigops.catalog.kernels import broken_from, newest_kernel, series
from rigops.catalog.loader import Catalog
from rigops.catalog.lookup import (
    ENDED,
    drives_all,
    find_branch,
    judge,
    runs_on,
    why_none,
)
from rigops.catalog.model import EVERY_CARD, DrivenGpu, DriverBranch, ModuleFlavor, Verdict
from rigops.catalog.versions import branch_of, parse
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request
from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Card, Kernel, Machine
    from rigops.inventory.spec.model import Flavor

OPEN_FROM = 560
_SEPARATE = "put the cards into separate machines"


def releases(catalog: Catalog, request: Request) -> list[str]:
    """Those of the catalog that are declared."""
    every = (release.version for branch in catalog.drivers for release in branch.releases)
    return [one for one in every if request.takes(one)]


def unlisted(catalog: Catalog, request: Request) -> list[str]:
    """A release that the catalog lacks, of a branch that it knows: its cards can be judged."""
    if request.driver.kind == "version":
        return [request.driver.text]
    if request.driver.kind != "branch" or find_branch(catalog, request.driver.text) is None:
        return []
    return [f"{request.driver.text}.0"]


def unfit(
    catalog: Catalog, version: str, cards: Iterable[Card], request: Request
) -> Blocker | None:
    _, blocker = flavors(catalog, version, cards)
    blocker = blocker or flavor_refused(catalog, version, cards, request.flavor)
    if blocker is None and not request.allow_bad:
        return bad(catalog, version, cards)
    return blocker


def bad(catalog: Catalog, version: str, cards: Iterable[Card]) -> Blocker | None:
    """Why it is bad, with evidence."""
    cards = tuple(cards)
    for gpu in known_gpus(cards) or (None,):
        verdicts = [one for one in _verdicts(catalog, version, gpu) if one.status == "bad"]
        if verdicts:
            worst = verdicts[0]
            evidence = "; ".join(
                f"{one.where} ({', '.join(filter(None, (one.date, one.hardware)))})"
                for one in worst.evidence
            )
            on_what = f" for {gpu.name}" if gpu else ""
            return Blocker(
                f"driver {version} is known to be bad{on_what}: {worst.why} [{evidence}]",
                f'{_instead(catalog, cards)}, or "driver_allow_bad": True if you know better',
            )
    return None


def rank(catalog: Catalog, version: str, cards: Iterable[Card]) -> int:
    """Lower is better: known to be good, not judged, with a caution, bad."""
    order = {"known-good": 0, "caution": 2, "bad": 3}
    worst = [
        order[verdict.status]
        for gpu in known_gpus(cards) or (None,)
        for verdict in _verdicts(catalog, version, gpu)
    ]
    return max(worst, default=1)


def preference(
    catalog: Catalog, version: str, cards: Iterable[Card]
) -> tuple[int, tuple[int, ...]]:
    """Sorts the best judged first, and of those the newest."""
    return rank(catalog, version, cards), tuple(-part for part in parse(version).release)


def cautions(catalog: Catalog, version: str, cards: Iterable[Card]) -> tuple[str, ...]:
    """Notes on it where it is chosen; the end of its branch among them."""
    branch = find_branch(catalog, branch_of(version))
    end = branch.end_of_life if branch else ""
    found = {
        f"driver {version}: {verdict.why}": None
        for gpu in known_gpus(cards) or (None,)
        for verdict in _verdicts(catalog, version, gpu)
        if verdict.status != "known-good"
    }
    if branch and end:
        text = "gets no fixes" if end == ENDED else f"gets no fixes after {end}"
        found[f"branch {branch.branch} {text}"] = None
    return tuple(found)


def flavors(
    catalog: Catalog, version: str, cards: Iterable[Card]
) -> tuple[tuple[ModuleFlavor, ...], Blocker | None]:
    """Those that drive every card that the catalog knows, or why there is none."""
    branch = find_branch(catalog, branch_of(version))
    both: tuple[ModuleFlavor, ...] = ("proprietary", "open")
    if branch is None:
        return both, None
    cards = tuple(cards)
    left = both
    for gpu in known_gpus(cards):
        support = runs_on(branch, gpu)
        if not support:
            return (), Blocker(
                f"driver {version} does not drive {gpu.name}: {support.reason}",
                _shared(catalog, cards),
            )
        left = tuple(one for one in left if one in support.flavors)
        if not left:
            return (), Blocker(
                f"the cards of this machine share no driver of branch {branch.branch}: "
                f"{_takes(branch, cards)}",
                _shared(catalog, cards),
            )
    return left, None


def flavor_refused(
    catalog: Catalog, version: str, cards: Iterable[Card], wanted: Flavor
) -> Blocker | None:
    """Why the declared flavor does not drive all of them, where another one does."""
    cards = tuple(cards)
    branch = find_branch(catalog, branch_of(version))
    supported, _ = flavors(catalog, version, cards)
    if wanted == "auto" or wanted in supported or branch is None or not supported:
        return None
    return Blocker(
        f"the {wanted} modules of driver {version} do not drive every card of this machine: "
        f"{_takes(branch, cards)}",
        f'declare "driver_flavor": "{supported[0]}", or leave the key out',
    )


def in_order(
    supported: tuple[ModuleFlavor, ...], version: str, installed: ModuleFlavor | None
) -> tuple[ModuleFlavor, ...]:
    """An installed flavor that all cards support comes first; else by branch."""
    usual: ModuleFlavor = "open" if int(branch_of(version)) >= OPEN_FROM else "proprietary"
    first = [installed] if installed else []
    return tuple(one for one in dict.fromkeys((*first, usual, *supported)) if one in supported)


@dataclass(frozen=True)
class TooNew:
    """Kernels that could boot next and that a release does not build for, as far as is known."""

    releases: tuple[str, ...]
    reason: str  # "... is known to build up to Linux 6.7"


def too_new(
    catalog: Catalog,
    version: str,
    kernels: Iterable[Kernel],
    flavor: ModuleFlavor,
    tested: str = "",
) -> TooNew | None:
    """`tested`: the newest series that its package says that it builds for."""
    branch = find_branch(catalog, branch_of(version))
    limit = tested or (newest_kernel(branch, version) if branch else "")
    found: dict[str, str] = {}
    for one in kernels:
        if one.around or version in one.built:
            continue
        kernel = one.version or one.release
        if limit and series(kernel) > series(limit):
            found[one.release] = f"is known to build up to Linux {limit}"
        elif at := broken_from(catalog, version, flavor, kernel, tested):
            found[one.release] = f"does not build from Linux {at} on"
    reason = " and ".join(dict.fromkeys(found.values()))
    return TooNew(tuple(found), reason) if found else None


def unknown_cards(machine: Machine) -> tuple[str, ...]:
    if not machine.cards:
        return ("no NVIDIA card found: support for the card to come is not checked",)
    return tuple(
        f"the catalog lacks the card at {card.address} (10de:{card.pci_id}): not checked "
        "whether this driver supports it"
        for card in machine.cards
        if card.gpu is None
    )


def _instead(catalog: Catalog, cards: tuple[Card, ...]) -> str:
    """The branches that are known to be good for all of them, else those that drive them."""
    driving = [one for one in catalog.drivers if drives_all(one, known_gpus(cards))]
    last = {
        one.branch: one.releases[-1].version if one.releases else f"{one.branch}.0"
        for one in driving
    }
    good = [name for name, version in last.items() if rank(catalog, version, cards) == 0]
    words = [f'"{name}"' for name in good or list(last)[-1:]]
    return f'declare "driver": {" or ".join(words)}' if words else _SEPARATE


def _shared(catalog: Catalog, cards: tuple[Card, ...]) -> str:
    shared = [one.branch for one in catalog.drivers if drives_all(one, known_gpus(cards))]
    if not shared:
        return why_none(catalog, known_gpus(cards))
    span = f" (branches {shared[0]} to {shared[-1]} drive all its cards)" if shared[1:] else ""
    return f"{_instead(catalog, cards)}{span}"


def _takes(branch: DriverBranch, cards: Iterable[Card]) -> str:
    return ", ".join(
        f"{gpu.name} takes the {' or '.join(found)} modules"
        for gpu in known_gpus(cards)
        if (found := runs_on(branch, gpu).flavors)
    )


def _verdicts(catalog: Catalog, version: str, gpu: DrivenGpu | None) -> list[Verdict]:
    """Where no card is known, only those that are about every card."""
    found = judge(catalog, version, gpu)
    return found if gpu else [one for one in found if EVERY_CARD in one.gpus]


def known_gpus(cards: Iterable[Card]) -> tuple[DrivenGpu, ...]:
    return tuple({card.gpu.name: card.gpu for card in cards if card.gpu}.values())
