"""A finding of a check, with its evidence and its fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from typing import Literal

from rigops.dataclass import dataclass

Status = Literal["fail", "warn", "unknown", "info", "ok", "skipped"]
FixKind = Literal["apply", "apply+reboot", "bios", "hands", "buy", "accept"]

HOST = "host"
UNKNOWN_CARD = "gpu unknown"


@dataclass(frozen=True)
class Evidence:
    section: str
    line: str  # raw output of the host

    def as_json(self) -> dict[str, object]:
        return {"section": self.section, "line": self.line}


@dataclass(frozen=True, kw_only=True)
class Fix:
    """`by_hand` is what to do where the concern that would do it is not in this version.

    `is_declared`: the inventory has what is to be declared, so apply alone does it.
    """

    kind: FixKind
    text: str
    concern: str | None = None
    declare: Mapping[str, object] | None = None
    by_hand: str = ""
    is_declared: bool = False

    @property
    def by_apply(self) -> bool:
        return self.kind in {"apply", "apply+reboot"}

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "concern": self.concern,
            "declare": dict(self.declare) if self.declare else None,
            "text": self.text,
        }


def fix_by_hand(text: str) -> Fix:
    return Fix(kind="hands", text=text)


@dataclass(frozen=True)
class Finding:
    """`id` and `essential` (an unknown that leaves the whole host unknown) come from the check.

    `judged_by`: of a paste, the section.
    """

    status: Status
    summary: str
    evidence: tuple[Evidence, ...] = ()
    _: KW_ONLY
    id: str = ""
    subject: str = HOST
    why: str = ""
    fix: Fix | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    essential: bool = False
    judged_by: str = ""

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "id": self.id,
            "status": self.status,
            "subject": self.subject,
            "summary": self.summary,
            "evidence": [one.as_json() for one in self.evidence],
            "why": self.why,
            "remedy": self.fix.as_json() if self.fix else None,
        }
        return {**document, "data": dict(self.data)} if self.data else document
