"""What doctor says about one host, whether it was reached or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rigops.doctor.judge import host_status, worst

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigops.doctor.finding import Finding
    from rigops.doctor.judge import HostStatus
    from rigops.errors import HostError

SCHEMA = "rigops.doctor/1"

Source = Literal["ssh", "local", "bundle"]


@dataclass(frozen=True, kw_only=True)
class HostReport:
    host: str
    source: Source
    collected_at: str | None
    duration_ms: int
    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    error: HostError | None = None
    notes: tuple[str, ...] = ()
    unparsed: Mapping[str, int] = field(default_factory=dict)

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
            "notes": list(self.notes),
            "unread": dict(self.unparsed),
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
