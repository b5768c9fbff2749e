"""Which driver suits these cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.catalog.lookup import concerns, judge, runs_on
from rigops.catalog.model import EVERY_CARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.version import Version

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import DriverBranch, Gpu, Verdict


def verdicts(catalog: Catalog, version: Version, cards: Sequence[Gpu]) -> list[Verdict]:
    """Worst first; without those on installing, since these are about a driver that runs."""
    return [
        verdict
        for verdict in judge(catalog, version)
        if verdict.purpose != "install"
        and (EVERY_CARD in verdict.gpus or any(concerns(verdict, card) for card in cards))
    ]


def is_bad(catalog: Catalog, version: Version, cards: Sequence[Gpu]) -> bool:
    return any(verdict.status == "bad" for verdict in verdicts(catalog, version, cards))


def is_good(catalog: Catalog, version: Version, cards: Sequence[Gpu]) -> bool:
    """There are reports, and all are good."""
    return {verdict.status for verdict in verdicts(catalog, version, cards)} == {"known-good"}


def good_branches(catalog: Catalog, cards: Sequence[Gpu]) -> list[DriverBranch]:
    """Those that drive every card and whose last release is known to be good."""
    return [
        branch
        for branch in catalog.drivers
        if branch.releases
        and all(runs_on(branch, card) for card in cards)
        and is_good(catalog, versions.parse(branch.releases[-1].version), cards)
    ]


def recommended(catalog: Catalog, cards: Sequence[Gpu]) -> DriverBranch | None:
    """The newest good branch that is maintained for years; where there is none, the newest."""
    good = good_branches(catalog, cards)
    long_term = [branch for branch in good if branch.kind == "LTSB"]
    return max(long_term or good, key=lambda branch: int(branch.branch), default=None)
