"""How the backups of a host are, as the program there wrote it down, and where its key went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.backup.borg_host import STATE_FILE
from rigops.dataclass import dataclass
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from rigops.json_fields import Fields

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

    id: str
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

    at: str
    result: str
    files: int | None = None
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.result == "ok"


@dataclass(frozen=True, kw_only=True)
class BorgState:
    """`at`: when it was written; times are RFC 3339, UTC, and None where there was none.

    `held`: why the last run did not remove all that retention no longer keeps.
    """

    at: str
    repository: RepositoryState
    newest_at: str | None = None
    last_check: Outcome | None = None
    last_drill: Outcome | None = None
    last_compact_at: str | None = None
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExportedKey:
    """`repository`: its id. `exported_at`: to the vault of a machine that runs rigops."""

    repository: str
    exported_at: str

    def to_json(self) -> str:
        document = {
            "schema": KEY_SCHEMA,
            "repository": self.repository,
            "exported_at": self.exported_at,
        }
        return f"{json.dumps(document, indent=2)}\n"


def waiting(location: str, error: str, at: str) -> str:
    """Of a repository on a server that could not be opened yet, until its own record."""
    message, _, fix = error.partition(". fix: ")
    repository = {"location": location, "state": "unreachable", "error": message, "fix": fix}
    return f"{json.dumps({'schema': SCHEMA, 'at': at, 'repository': repository}, indent=2)}\n"


def parse(text: str) -> BorgState:
    fields = json_fields.parse(text, place=PATH)
    fields.require_schema(SCHEMA)
    return BorgState(
        at=fields.time("at"),
        repository=_repository(fields.nested("repository")),
        newest_at=_time_or_none(fields, "newest_at"),
        last_check=_outcome(fields.nested_or_none("last_check")),
        last_drill=_outcome(fields.nested_or_none("last_drill")),
        last_compact_at=_time_or_none(fields, "last_compact_at"),
        held=fields.texts("held") if fields.raw("held") else (),
    )


def parse_key(text: str) -> ExportedKey:
    fields = json_fields.parse(text, place=KEY_PATH)
    fields.require_schema(KEY_SCHEMA)
    return ExportedKey(repository=fields.text("repository"), exported_at=fields.time("exported_at"))


def _repository(fields: Fields) -> RepositoryState:
    lock = fields.nested_or_none("lock")
    return RepositoryState(
        id=_text_or_empty(fields, "id"),
        location=fields.text("location"),
        state=fields.text("state"),
        error=_text_or_empty(fields, "error"),
        fix=_text_or_empty(fields, "fix"),
        borg=_text_or_empty(fields, "borg"),
        last_borg=_text_or_empty(fields, "last_borg"),
        archives=_whole(fields, "archives"),
        free_bytes=_whole(fields, "free_bytes"),
        lock=RepositoryLock(
            host=lock.text("host"), pid=int(lock.number("pid")), age_s=lock.number("age_s")
        )
        if lock
        else None,
    )


def _outcome(fields: Fields | None) -> Outcome | None:
    """One that never was may have its fields, and no time."""
    if fields is None or fields.raw("at") is None:
        return None
    return Outcome(
        at=fields.time("at"),
        result=fields.text("result"),
        files=_whole(fields, "files"),
        error=_text_or_empty(fields, "error"),
    )


def _whole(fields: Fields, name: str) -> int | None:
    number = fields.number_or_none(name)
    return None if number is None else int(number)


def _time_or_none(fields: Fields, name: str) -> str | None:
    return None if fields.raw(name) is None else fields.time(name)


def _text_or_empty(fields: Fields, name: str) -> str:
    return "" if fields.raw(name) is None else fields.text(name)
