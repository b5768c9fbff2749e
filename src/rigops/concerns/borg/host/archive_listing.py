"""The list of archives, why each stays, and which pruning removes next. Changes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rigops.backup.pruning import is_future
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.borg.host.archive_names import archives_of
from rigops.concerns.borg.host.archive_retention import archive_reasons, plan_pruning
from rigops.concerns.borg.host.backing_up import present_occasion
from rigops.concerns.borg.host.borg_meanings import ABSENT, FAILED, LOCKED, OK, UNREACHABLE
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_state import known_repository
from rigops.concerns.borg.host.repository import (
    RepositoryError,
    free_bytes,
    list_repository,
    open_borg,
)

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.documents import CopyRow
    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.archive_names import Archive
    from rigops.concerns.borg.host.borg_settings import BorgSettings

BORG_ENGINE = "borg"
# A repository that is in use is there: the words are those of a target of snapshots.
_TARGET_STATES = {OK: "present", LOCKED: "present", ABSENT: "absent", UNREACHABLE: "unreachable"}


def add_archive_list(commands: Any) -> None:
    parser = commands.add_parser("list", help=__doc__)
    parser.add_argument("--sizes", action="store_true", help="accepted, and without effect")
    parser.set_defaults(carry_out=list_archives)


def list_archives(options: argparse.Namespace, output: Output) -> int:
    """In the form in which the snapshots program has it. A repository that is absent is named."""
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    names: tuple[str, ...] = ()
    state, error = OK, None
    try:
        names = list_repository(borg).names
    except RepositoryError as refusal:
        state, error = refusal.state, refusal
    mine = archives_of(settings.host, names)
    rows = _describe_archives(settings, mine)
    now = utc_now()
    newest = max(
        (one.at for one in mine if one.is_whole and not is_future(one.at, now)), default=None
    )
    found = {
        "subvolumes": [
            {"path": path, "nested": [], "error": None, "snapshots": rows}
            for path in settings.paths
        ],
        "targets": [
            {
                "name": settings.repository,
                "state": _TARGET_STATES.get(state, FAILED),
                "newest_at": utc_text(newest) if newest else _newest_known(settings),
                "free_bytes": free_bytes(settings),
                "size_bytes": _size_bytes(settings),
                "error": f"{error.message}. fix: {error.fix}" if error else None,
            }
        ],
        "foreign": [],
        "engine": BORG_ENGINE,
        "repository_state": state,
    }
    output.result(found)
    if not output.as_json:
        for one in rows:
            output.notice(f"{one['name']}  {', '.join(one['reasons'])}")
    return 0


def _describe_archives(settings: BorgSettings, mine: list[Archive]) -> list[CopyRow]:
    now = utc_now()
    reasons = archive_reasons(settings, mine, now)
    occasion = present_occasion(settings, now)
    going = plan_pruning(settings, [one.name for one in mine], now, occasion).going
    return [
        {
            "name": one.name,
            "at": utc_text(one.at),
            "kind": "partial" if one.is_partial else "archive",
            "engine": BORG_ENGINE,
            "places": [{"place": settings.repository, "is_complete": one.is_complete}],
            "bytes": None,
            "reasons": list(reasons.get(one.name, ())),
            "is_pruned_next": one.name in going,
        }
        for one in mine
    ]


def _newest_known(settings: BorgSettings) -> str | None:
    seen = known_repository(settings.repository).get("seen_archives") or []
    return max((utc_text(one.at) for one in archives_of(settings.host, seen)), default=None)


def _size_bytes(settings: BorgSettings) -> int | None:
    try:
        found = os.statvfs(settings.folder) if settings.folder else None
    except OSError:
        return None
    return found.f_blocks * found.f_frsize if found else None
