"""What was declared for a host when it was changed last, and before that.

So `rigops init` knows it again, and `rigops rollback HOST --what config` goes back to it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from rigops.atomic_file import SHELL_SETTLE
from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, document, parse
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
class DeclaredKeys:
    """`keys`: as in the inventory, without those that stay on the machine that has it.

    `has_worked`: an apply brought them into force and verified them, and P2P where there is any.
    `before`: the last other keys that worked.
    """

    at: Time
    keys: Mapping[str, object]
    has_worked: bool = False
    before: Mapping[str, object] | None = None

    @classmethod
    def from_keys(
        cls, at: str, keys: Mapping[str, object], last: DeclaredKeys | None = None
    ) -> DeclaredKeys:
        """With values as they come back from the host: tuples are lists there."""
        now: Mapping[str, object] = json.loads(json.dumps(dict(keys)))
        if last is not None and last.keys == now:
            return last
        before = (last.keys if last.has_worked else last.before) if last else None
        return cls(at=at, keys=now, before=None if before == now else before)

    @classmethod
    def from_json(cls, text: str) -> DeclaredKeys:
        return parse(cls, text, schema=_SCHEMA, place="the record of what was declared")

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    def writing(self) -> list[str]:
        """The command, which root runs."""
        return ["sh", "-c", _WRITE, "rigops", b64encode(self.to_json().encode()).decode()]
