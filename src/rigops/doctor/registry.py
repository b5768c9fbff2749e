"""All checks, and what every finding has in common whichever check made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops import assets
from rigops.doctor.check import Check, Examined
from rigops.doctor.checks import driver, iommu
from rigops.spec import RigSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rigops.catalog import Catalog
    from rigops.doctor.finding import Finding, Remedy
    from rigops.probe.facts import HostFacts

CHECKS: tuple[Check, ...] = (*driver.CHECKS, *iommu.CHECKS)


def examine(
    facts: HostFacts,
    spec: RigSpec | None,
    catalog: Catalog,
    *,
    checks: Iterable[Check] = CHECKS,
    concerns: Collection[str] | None = None,
) -> list[Finding]:
    """`concerns` are those that apply can carry out: by default the deploys of this version."""
    examined = Examined(facts, spec or RigSpec(), catalog)
    deployable = deploys() if concerns is None else concerns
    return [
        replace(
            finding,
            remedy=_possible(finding.remedy, deployable),
            essential=check.essential or bool(check.keys & examined.spec.declared),
        )
        for check in checks
        for finding in check.run(examined)
    ]


def deploys() -> frozenset[str]:
    return frozenset(path.stem for path in assets.find("deploys").glob("*.py"))


def _possible(remedy: Remedy | None, deployable: Collection[str]) -> Remedy | None:
    if remedy is None or not remedy.by_apply or remedy.concern in deployable:
        return remedy
    return replace(remedy, kind="hands", concern=None, text=remedy.by_hand or remedy.text)
