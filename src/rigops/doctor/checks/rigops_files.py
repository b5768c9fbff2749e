"""Whether the files and units of rigops on the host are as it wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigops.concerns.registry import in_this_version
from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import driver_advice
from rigops.doctor.views.driver_state import CONCERN
from rigops.errors import RigopsError
from rigops.ownership.ownership import Ownership, WantedFile
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.ownership.ownership import OwnedFile
    from rigops.probe.sections.rigops_state import Present, RigopsState

_AS_DECLARED = "`rigops plan -v` shows the difference; `rigops apply` puts it right"


@Check("rigops.files", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("apply", "hands"))
def files(examined: Examined) -> Finding | list[Finding]:
    """The files and units of rigops on the host are as it wrote them.

    Compares every file of the ownership record with its digest, owner and mode there. A file that
    is gone, that was changed, or that is a link, a directory or the like is a warning, and so are a
    unit of rigops that is masked and a drop-in that changes one.
    """
    answer = examined.snapshot[RIGOPS_STATE]
    state = answer.value
    if state is None or not answer.is_complete or not state.are_files_known:
        return Finding("unknown", "the files of rigops were not collected whole")
    if state.owned is None:
        return Finding("skipped", "rigops owns no file there")
    try:
        owned = Ownership.parse(state.owned)
    except RigopsError:
        return Finding("unknown", "the record of the files of rigops cannot be read")
    found = [*_changed_files(examined, owned, state), *_changed_units(state)]
    return found or Finding("ok", "the files of rigops are as it wrote them")


def _changed_files(examined: Examined, owned: Ownership, state: RigopsState) -> Iterator[Finding]:
    for path, file in sorted(owned.files.items()):
        there = state.present.get(path)
        if difference := _difference(file, there):
            fix = _fix(examined, file.concern)
            if there and there.kind:
                fix = Fix(kind="hands", text=f"move it away: sudo mv {path} {path}.away")
            yield Finding("warn", difference, subject=path, fix=fix)


def _fix(examined: Examined, concern: str) -> Fix:
    """Apply writes no file of what is not declared, and none of a driver that it cannot bring."""
    if concern == CONCERN and (reason := driver_advice.blocked(examined)):
        return Fix(kind="hands", text=reason)
    keys = {key.name for one in in_this_version() if one.name == concern for key in one.keys}
    if keys.isdisjoint(examined.spec.declared):
        return Fix(kind="hands", text=_AS_DECLARED)
    return Fix(kind="apply", concern=concern, is_declared=True, text=_AS_DECLARED)


def _difference(file: OwnedFile, there: Present | None) -> str:
    if there is None:
        return "the file is gone"
    if there.kind:
        return f"it is {there.kind}, and rigops wrote a file"
    if not file.has_ours(there):
        return "its content was changed"
    return WantedFile(file.concern, file.digest, file.mode).drift(there)


def _changed_units(state: RigopsState) -> Iterator[Finding]:
    for name, unit in sorted(state.units.items()):
        if unit.enabled == "masked":
            fix = Fix(kind="hands", text=f"sudo systemctl unmask {name}")
            yield Finding("warn", "the unit is masked", subject=name, fix=fix)
        for drop_in in unit.drop_ins:
            fix = Fix(kind="hands", text=f"sudo systemctl revert {name}")
            yield Finding("warn", f"{drop_in} changes the unit", subject=name, fix=fix)
