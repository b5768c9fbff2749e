"""What was declared for a host when it was changed last, so that `rigops init` knows it again."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from rigops import json_fields
from rigops.atomic_file import SHELL_SETTLE
from rigops.dataclass import dataclass
from rigops.probe.sections.rigops_state import STATE

PATH: Final = f"{STATE}/declared.json"

_SCHEMA: Final = "rigops.declared/1"
_WRITE: Final = f"""
{SHELL_SETTLE}
set -eu
umask 022
mkdir -p {STATE}
printf %s "$1" | base64 -d >{PATH}.rigops-new
settle {PATH}
"""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """`keys`: as in the inventory, without those that stay on the machine that has it."""

    at: str  # RFC 3339, UTC
    keys: Mapping[str, object]

    @classmethod
    def of(cls, at: str, keys: Mapping[str, object]) -> Declared:
        """With values as they come back from the host: tuples are lists there."""
        return cls(at=at, keys=json.loads(json.dumps(dict(keys))))

    @classmethod
    def from_json(cls, text: str) -> Declared:
        fields = json_fields.parse(text, place="the record of what was declared")
        fields.require_schema(_SCHEMA)
        return cls(at=fields.time("at"), keys=fields.object("keys"))

    def to_json(self) -> str:
        document = {"schema": _SCHEMA, "at": self.at, "keys": dict(self.keys)}
        return json.dumps(document, indent=2) + "\n"

    def writing(self) -> list[str]:
        """The command, which root runs."""
        return ["sh", "-c", _WRITE, "rigops", b64encode(self.to_json().encode()).decode()]
