"""What was declared for a host when it was changed last, and before that.

So `rigops init` knows it again, and `rigops rollback HOST --what config` goes back to it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import field
from types import MappingProxyType
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

    `parts`: of such a key, what the host has anyhow. `left_out`: the rest, as "notify" or
    "borg.passphrase_command".
    `has_worked`: an apply brought them into force and verified them, and P2P where there is any.
    `before`: the last other keys that worked.
    """

    at: Time
    keys: Mapping[str, object]
    parts: Mapping[str, object] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    has_worked: bool = False
    before: Mapping[str, object] | None = None

    @classmethod
    def from_keys(
        cls,
        at: str,
        keys: Mapping[str, object],
        last: DeclaredKeys | None = None,
        *,
        parts: Mapping[str, object] = MappingProxyType({}),
        left_out: Collection[str] = (),
    ) -> DeclaredKeys:
        """With values as they come back from the host: tuples are lists there."""
        now, own = json.loads(json.dumps([dict(keys), dict(parts)]))
        others = tuple(sorted(left_out))
        if last is not None and (last.keys, last.parts, last.left_out) == (now, own, others):
            return last
        before = (
            (last.keys if last.has_worked and last.keys != now else last.before) if last else None
        )
        if before == now:
            before = None
        return cls(at=at, keys=now, parts=own, left_out=others, before=before)

    @classmethod
    def from_json(cls, text: str) -> DeclaredKeys:
        return parse(cls, text, schema=_SCHEMA, place="the record of what was declared")

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    def writing(self) -> list[str]:
        """The command, which root runs."""
        return ["sh", "-c", _WRITE, "rigops", b64encode(self.to_json().encode()).decode()]
