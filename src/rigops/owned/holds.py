"""The record, kept on the host, of the packages that rigops holds and nobody held before."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops import json_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RECORD: Final = "/var/lib/rigops/holds.json"

_SCHEMA: Final = "rigops.holds/1"
_CURE: Final = (
    f"mend {RECORD} or put a backup of it back. If it is lost for good, move it away; the holds in "
    "it then count as somebody else's."
)


@dataclass(frozen=True)
class Holds:
    """The concern by the name of a package. Written before the hold, and after its release."""

    holds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> Holds:
        """None is a host without a record. An unreadable one is an error, never that."""
        if text is None:
            return cls()
        document = json_fields.parse(text, place=RECORD, cure=_CURE)
        document.require_schema(_SCHEMA)
        return cls(document.text_map("holds"))

    def to_json(self) -> str:
        holds = {name: self.holds[name] for name in sorted(self.holds)}
        return json.dumps({"schema": _SCHEMA, "holds": holds}, indent=2) + "\n"

    def of(self, concern: str) -> tuple[str, ...]:
        return tuple(name for name in sorted(self.holds) if self.holds[name] == concern)

    def having(self, names: Collection[str], concern: str) -> Holds:
        return Holds({**self.holds, **dict.fromkeys(names, concern)})

    def without(self, names: Collection[str]) -> Holds:
        return Holds({name: whose for name, whose in self.holds.items() if name not in names})
