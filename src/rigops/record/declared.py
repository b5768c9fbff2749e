"""The declarations of a host at its last change, and before that.

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


@dataclass(frozen=True)
class Author:
    """`who`: user@machine."""

    who: str
    at: Time


@dataclass(frozen=True, kw_only=True)
class DeclaredKeys:
    """`keys`: as in the inventory, without those that stay on the machine that has it.

    `parts`: of such a key, what the host has anyhow. `left_out`: the rest, as "notify" or
    "borg.passphrase_command".
    `has_worked`: an apply brought them into force and verified them, and P2P where there is any.
    `before`: the last other keys that worked. `by`: who gave a key its value; not in older records.
    """

    at: Time
    keys: Mapping[str, object]
    parts: Mapping[str, object] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    has_worked: bool = False
    before: Mapping[str, object] | None = None
    by: Mapping[str, Author] = field(default_factory=dict)

    @classmethod
    def from_keys(
        cls,
        at: str,
        keys: Mapping[str, object],
        last: DeclaredKeys | None = None,
        *,
        parts: Mapping[str, object] = MappingProxyType({}),
        left_out: Collection[str] = (),
        who: str = "",
    ) -> DeclaredKeys:
        """With values as they come back from the host: tuples are lists there."""
        now, own, others = _as_recorded(keys), _as_recorded(parts), tuple(sorted(left_out))
        if last is not None and (last.keys, last.parts, last.left_out) == (now, own, others):
            return last
        before = (
            (last.keys if last.has_worked and last.keys != now else last.before) if last else None
        )
        if before == now:
            before = None
        kept = {name for name in now if last and name in last.keys and last.keys[name] == now[name]}
        by = {name: author for name, author in (last.by if last else {}).items() if name in kept}
        if who:
            by |= {name: Author(who, at) for name in now if name not in kept}
        return cls(at=at, keys=now, parts=own, left_out=others, before=before, by=by)

    def overridden(self, keys: Mapping[str, object], who: str) -> Mapping[str, Author]:
        """The declarations of others than `who` that these keys replace or no longer have."""
        now = _as_recorded({name: keys[name] for name in self.by if name in keys})
        return {
            name: author
            for name, author in self.by.items()
            if author.who != who
            and name in self.keys
            and (name not in now or now[name] != self.keys[name])
        }

    @classmethod
    def from_json(cls, text: str) -> DeclaredKeys:
        return parse(cls, text, schema=_SCHEMA, place="the record of what was declared")

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    def writing(self) -> list[str]:
        """The command, which root runs."""
        return ["sh", "-c", _WRITE, "rigops", b64encode(self.to_json().encode()).decode()]


def _as_recorded(keys: Mapping[str, object]) -> dict[str, object]:
    recorded: dict[str, object] = json.loads(json.dumps(dict(keys)))
    return recorded
