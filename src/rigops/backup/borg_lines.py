"""The result of a backup with borg or a drill, as lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_BORG: Final = "borg"


def read_backup(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """With rows for what was created and pruned: an archive has all paths."""
    rows = {
        name: [_row(one) for one in document[name]]
        for name in ("created", "pruned")
        if isinstance(document.get(name), list)
    }
    return {**document, **rows}


def read_drill(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the first error, if there is one."""
    drill = document.get("drill")
    done = dict(drill if isinstance(drill, dict) else document)
    errors = [*document.get("errors", ())]
    first = errors[0] if errors else {"message": "", "fix": ""}
    return {"error": first["message"], "fix": first["fix"], **done}


def _row(found: object) -> dict[str, Any]:
    given = found if isinstance(found, dict) else {"name": str(found)}
    return {"path": _BORG, "place": _BORG, **given}
