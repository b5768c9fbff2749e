"""In which order findings are told: the worst first, and of those the cause before its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.doctor.finding import Finding, Status

# A warning is something to do, an unknown something to look at: a person wants the first first.
WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "unknown", "info", "ok", "skipped")

CAUSES_FIRST: Final = (
    "drv.dkms",
    "drv.secureboot",
    "drv.nouveau",
    "drv.mismatch",
    "drv.gsp",
    "drv.pin",
    "drv.flavor",
    "drv.loaded",
    "iommu.fault",
    "xid",
    "gpu.lost",
    "gpu.count",
    "acs.path",
    "cmdline.drift",
    "iommu.mode",
)


def told(findings: Iterable[Finding]) -> list[Finding]:
    """Ids that are not among the causes keep the order of the checks."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, int, int]:
    known = finding.id in CAUSES_FIRST
    cause = CAUSES_FIRST.index(finding.id) if known else len(CAUSES_FIRST)
    return WORST_FIRST.index(finding.status), cause, 0 if finding.essential else 1
