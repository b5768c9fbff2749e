"""The report of doctor on one host, whether it was reached or not: findings, status and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import find_cards
from rigops.doctor.finding import Finding
from rigops.doctor.stories import Story, unexplained
from rigops.doctor.views import driver_state
from rigops.errors import HostError
from rigops.probe.section import Section
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.os_release import SECTION as OS_RELEASE
from rigops.probe.sections.uname import SECTION as UNAME

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

SCHEMA = "rigops.doctor/1"
MORE: Final = "more would be decided by"
Source = Literal["ssh", "local", "bundle"]
HostStatus = Literal["fail", "unknown", "warn", "ok"]
WORST_FIRST: Final[tuple[HostStatus, ...]] = ("fail", "unknown", "warn", "ok")
_FAILED: Final = 1
_COULD_NOT_TELL: Final = 3
SUMMARIZED: Final[tuple[Section[Any], ...]] = (OS_RELEASE, UNAME, NVIDIA_VERSION)


@dataclass(frozen=True, kw_only=True)
class HostReport:
    host: str
    source: Source
    collected_at: str | None
    duration_ms: int
    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    stories: tuple[Story, ...] = ()
    error: HostError | None = None
    notes: tuple[str, ...] = ()
    unparsed: Mapping[str, int] = field(default_factory=dict)
    is_paste: bool = False
    decided_by: str = ""  # of a paste: the command whose output would decide more
    baseline_at: str | None = None  # of the one that it was compared with

    @property
    def unexplained(self) -> tuple[Finding, ...]:
        return unexplained(self.findings, self.stories)

    @property
    def status(self) -> HostStatus:
        return "unknown" if self.error else host_status(self.findings)

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "host": self.host,
            "status": self.status,
            "source": self.source,
            "collected_at": self.collected_at,
            "duration_ms": self.duration_ms,
            "facts": dict(self.facts),
            "findings": [finding.as_json() for finding in self.findings],
            "stories": [story.as_json(self.findings) for story in self.stories],
            "notes": [*self.notes, *([f"{MORE}: {self.decided_by}"] if self.decided_by else [])],
            "unread": dict(self.unparsed),
            "baseline": {"at": self.baseline_at} if self.baseline_at else None,
        }
        if self.error:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document


def document(hosts: Sequence[HostReport]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "status": worst(host.status for host in hosts),
        "hosts": [host.as_json() for host in hosts],
    }


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


def summary(snapshot: HostSnapshot, catalog: Catalog) -> dict[str, object]:
    """None where it was not collected; `gpus` are those on the bus, driven or not."""
    system = snapshot[OS_RELEASE].value
    driver = driver_state.loaded_version(snapshot)
    return {
        "os": system and (system.pretty_name or system.id),
        "kernel": snapshot[UNAME].or_empty.release,
        "driver": driver[0] if driver else snapshot[NVIDIA_VERSION].or_empty.version,
        "gpus": _gpus(snapshot, catalog),
    }


def _gpus(snapshot: HostSnapshot, catalog: Catalog) -> list[dict[str, object]] | None:
    if all(snapshot[section].value is None for section in views.NAMES_CARDS):
        return None
    return [
        {
            "address": card.address,
            "model": card.model.name if card.model else None,
            "name": card.name,
            "driver": card.function.driver if card.function else None,
        }
        for card in find_cards(snapshot, catalog)
    ]
