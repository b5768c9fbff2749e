"""How the backups of a host are, as the program there wrote it down, and where its key went."""

from __future__ import annotations

import json
from typing import Annotated, Final

from rigops import json_dataclass
from rigops.backup.borg_host import STATE_FILE
from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, from_json
from rigops.json_fields import Fields
from rigops.probe.sections.rigops_state import STATE

KEY: Final = "/etc/rigops/borg_key"  # made on the host, and never leaves it
PUBLIC_KEY: Final = f"{KEY}.pub"
PATH: Final = STATE_FILE
SCHEMA: Final = "rigops.borg_state/1"
KEY_PATH: Final = f"{STATE}/borg_key.json"
KEY_SCHEMA: Final = "rigops.borg_key/1"


@dataclass(frozen=True, kw_only=True)
class RepositoryLock:
    host: str
    pid: int
    age_s: float  # when the state was written


@dataclass(frozen=True, kw_only=True)
class RepositoryState:
    """`state`: ok, absent, locked, unreachable, to be healed or failed.

    `id`: empty where it was never opened. `borg` and `last_borg`: versions of the host's borg, and
    of the one that wrote last.
    """

    id: str = ""
    location: str
    state: str
    error: str = ""
    fix: str = ""
    borg: str = ""
    last_borg: str = ""
    archives: int | None = None
    free_bytes: int | None = None
    lock: RepositoryLock | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of a check or a drill. `result`: ok, or what was found."""

    at: Time
    result: str
    files: int | None = None
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.result == "ok"


def _outcome(fields: Fields, name: str) -> Outcome | None:
    """One that never was may have its fields, and no time."""
    given = fields.nested(name)
    return None if given.raw("at") is None else from_json(Outcome, given)


@dataclass(frozen=True, kw_only=True)
class BorgState:
    """`at`: when it was written; times are RFC 3339, UTC, and None where there was none.

    `held`: why the last run did not remove all that retention no longer keeps.
    """

    at: Time
    repository: RepositoryState
    newest_at: Time | None = None
    last_check: Annotated[Outcome | None, _outcome] = None
    last_drill: Annotated[Outcome | None, _outcome] = None
    last_compact_at: Time | None = None
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExportedKey:
    """`repository`: its id. `exported_at`: to the vault of a machine that runs rigops."""

    repository: str
    exported_at: Time

    def to_json(self) -> str:
        return json_dataclass.document(KEY_SCHEMA, self)


def waiting(location: str, error: str, at: str) -> str:
    """Of a repository on a server that could not be opened yet, until its own record."""
    message, _, fix = error.partition(". fix: ")
    repository = {"location": location, "state": "unreachable", "error": message, "fix": fix}
    return f"{json.dumps({'schema': SCHEMA, 'at': at, 'repository': repository}, indent=2)}\n"


def parse(text: str) -> BorgState:
    return json_dataclass.parse(BorgState, text, schema=SCHEMA, place=PATH)


def parse_key(text: str) -> ExportedKey:
    return json_dataclass.parse(ExportedKey, text, schema=KEY_SCHEMA, place=KEY_PATH)
