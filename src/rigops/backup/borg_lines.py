"""The result of a backup with borg or a drill, as lines. Pure."""

from __future__ import annotations

from typing import Final

from rigops.backup.answer_shape import ProgramResult

_BORG: Final = "borg"


def read_backup(document: ProgramResult) -> ProgramResult:
    """With rows for what was created and pruned: an archive has all paths."""
    done = document.copy()
    for name in ("created", "pruned"):
        if name in document:
            done[name] = [{"path": _BORG, "place": _BORG, **one} for one in document[name]]
    return done


def read_drill(document: ProgramResult) -> ProgramResult:
    """With the first error, if there is one."""
    errors = document.get("errors")
    first: ProgramResult = errors[0] if errors else {"message": "", "fix": ""}
    done = document.get("drill") or document
    return {"error": first["message"], "fix": first["fix"], **done}
