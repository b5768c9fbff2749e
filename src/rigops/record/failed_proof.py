"""The last preflight of a host, where it failed or nobody saw its end; no proof counts then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, document, parse
from rigops.record.proven import Pair

BEGUN: Final = "begun"  # of a pair: copies were about to be made

_SCHEMA: Final = "rigops.failed_proof/1"


@dataclass(frozen=True, kw_only=True)
class FailedProof:
    """`pairs`: those that failed, or were about to be tried. `versions`: as in the journal.

    `failure`: in a phrase. `stopgap`: what to declare until a preflight passes.
    """

    at: Time
    versions: Mapping[str, str]
    pairs: tuple[Pair, ...]
    reasons: tuple[str, ...] = ()
    failure: str = ""
    stopgap: str = ""

    @property
    def has_ended(self) -> bool:
        return all(pair.verdict != BEGUN for pair in self.pairs)

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    @classmethod
    def from_json(cls, text: str) -> FailedProof:
        return parse(cls, text, schema=_SCHEMA, place="the record of a failed preflight")
