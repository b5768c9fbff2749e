"""From findings to one word for a host, and from hosts to an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.doctor.finding import Finding

HostStatus = Literal["fail", "unknown", "warn", "ok"]

WORST_FIRST: Final[tuple[HostStatus, ...]] = ("fail", "unknown", "warn", "ok")

_FAILED: Final = 1
_COULD_NOT_TELL: Final = 3


def host_status(findings: Iterable[Finding]) -> HostStatus:
    found = tuple(findings)
    statuses = {finding.status for finding in found}
    if "fail" in statuses:
        return "fail"
    if any(finding.status == "unknown" and finding.essential for finding in found):
        return "unknown"
    return "warn" if "warn" in statuses else "ok"


def worst(statuses: Iterable[HostStatus]) -> HostStatus:
    return min(statuses, key=WORST_FIRST.index, default="ok")


def exit_code(statuses: Iterable[HostStatus], *, strict: bool = False) -> int:
    """`strict` counts warnings as failures."""
    found = set(statuses)
    if "fail" in found or (strict and "warn" in found):
        return _FAILED
    return _COULD_NOT_TELL if "unknown" in found else 0
