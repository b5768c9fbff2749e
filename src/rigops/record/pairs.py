"""What preflight found between two GPUs, in one direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rigops.json_fields import Fields


@dataclass(frozen=True)
class Pair:
    source: str  # PCI addresses
    target: str
    verdict: str
    gb_per_s: float | None

    @classmethod
    def from_fields(cls, fields: Fields) -> Pair:
        return cls(
            source=fields.text("from"),
            target=fields.text("to"),
            verdict=fields.text("verdict"),
            gb_per_s=fields.number_or_none("gb_per_s"),
        )

    def as_json(self) -> dict[str, object]:
        return {
            "from": self.source,
            "to": self.target,
            "verdict": self.verdict,
            "gb_per_s": self.gb_per_s,
        }
