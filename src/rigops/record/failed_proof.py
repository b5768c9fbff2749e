"""The last preflight of a host, where it failed or nobody saw its end; no proof counts then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.record.proven import Pair

BEGUN: Final = "begun"  # of a pair: copies were about to be made

_SCHEMA: Final = "rigops.failed_proof/1"


@dataclass(frozen=True, kw_only=True)
class FailedProof:
    """`pairs`: those that failed, or were about to be tried. `versions`: as in the journal."""

    at: str  # RFC 3339, UTC
    versions: Mapping[str, str]
    pairs: tuple[Pair, ...]
    reasons: tuple[str, ...] = ()

    @property
    def has_ended(self) -> bool:
        return all(pair.verdict != BEGUN for pair in self.pairs)

    def to_json(self) -> str:
        document = {
            "schema": _SCHEMA,
            "at": self.at,
            "versions": dict(sorted(self.versions.items())),
            "pairs": [pair.as_json() for pair in self.pairs],
            "reasons": list(self.reasons),
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FailedProof:
        fields = json_fields.parse(text, place="the record of a failed preflight")
        fields.require_schema(_SCHEMA)
        return cls(
            at=fields.time("at"),
            versions=fields.text_map("versions"),
            pairs=tuple(Pair.from_fields(pair) for pair in fields.each("pairs")),
            reasons=fields.texts("reasons"),
        )
