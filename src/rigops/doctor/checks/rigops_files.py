"""Whether the files and units of rigops on the host are as it wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix
from rigops.errors import RigopsError
from rigops.ownership.ownership import Ownership, WantedFile
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.ownership.ownership import OwnedFile
    from rigops.probe.sections.rigops_state import Present, RigopsState

_AS_DECLARED = "`rigops plan -v` shows the difference; `rigops apply` puts it right"


@Check("rigops.files", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("hands",))
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
    found = [*_changed_files(owned, state), *_changed_units(state)]
    return found or Finding("ok", "the files of rigops are as it wrote them")


def _changed_files(owned: Ownership, state: RigopsState) -> Iterator[Finding]:
    for path, file in sorted(owned.files.items()):
        there = state.present.get(path)
        if difference := _difference(file, there):
            is_file = there is None or not there.kind
            fix = _AS_DECLARED if is_file else f"move it away: sudo mv {path} {path}.away"
            yield Finding("warn", difference, subject=path, fix=Fix(kind="hands", text=fix))


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
