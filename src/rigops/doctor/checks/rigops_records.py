"""The records of rigops on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigops.concerns.host_records import damaged_records, key_maker, torn_lines
from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix
from rigops.errors import RigopsError
from rigops.ownership.ownership import Ownership
from rigops.probe.sections.rigops_state import RECORD
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.record.shell import JOURNAL

if TYPE_CHECKING:
    from rigops.concerns.concern import Concern
    from rigops.doctor.examined import Examined
    from rigops.inventory.spec import RigSpec
    from rigops.probe.sections.rigops_state import RigopsState

_NOT_RUN = "Without its records rigops can undo nothing, and has no proofs."


@Check("rigops.records", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("apply", "hands"))
def records(examined: Examined) -> Finding | list[Finding]:
    """The records of rigops on the host are complete.

    The ownership record /var/lib/rigops/owned.json names every file that rigops wrote. Where it is
    lost, damaged or incomplete (files of rigops without a record show that), this fails, and plan
    and apply refuse the host. A key for backups that it does not name is a warning: apply records
    it. Other records that cannot be read are a warning, or a failure where something is not changed
    or undone until they can. Lines of the journal that a power cut tore are information.
    """
    answer = examined.snapshot[RIGOPS_STATE]
    if answer.value is None:
        return Finding("unknown", "the records of rigops were not collected")
    found = list(_findings(answer.value, examined.spec))
    if found:
        return found
    if not answer.is_complete:
        return Finding("unknown", "the records of rigops were not collected whole")
    if answer.value.owned is None and not answer.value.records:
        return Finding("skipped", "rigops has recorded nothing there")
    return Finding("ok", "the records of rigops are whole")


def _findings(state: RigopsState, spec: RigSpec) -> Iterator[Finding]:
    is_refused = not state.are_files_known
    if state.are_files_known:
        try:
            Ownership.from_state(state)
        except RigopsError as error:
            is_refused = True
            (problem,) = error.problems
            yield Finding(
                "fail",
                problem.message,
                subject=RECORD,
                why=_NOT_RUN,
                fix=Fix(kind="hands", text=problem.fix),
            )
    for path, trace in state.unrecorded.items():
        if trace.is_made and is_refused:
            continue
        if concern := key_maker(path):
            yield _unrecorded_key(path, concern, spec)
            continue
        yield Finding(
            "warn",
            "is where rigops writes and not in its record; its origin is unknown",
            subject=path,
            fix=Fix(kind="hands", text="remove it, or move it elsewhere"),
        )
    for record in damaged_records(state):
        yield Finding(
            "fail" if record.is_refused else "warn",
            f"cannot be read: {record.effect}",
            subject=record.path,
            why=_NOT_RUN,
            fix=Fix(kind="hands", text=record.fix),
        )
    if lines := torn_lines(state):
        text = f"{lines} of its last lines cannot be read; no other line is affected"
        yield Finding("info", text, subject=JOURNAL)


def _unrecorded_key(path: str, concern: Concern, spec: RigSpec) -> Finding:
    name = concern.name
    fix = Fix(kind="hands", text=f"declare {name} again, so that `rigops apply` records it")
    if concern.declared_keys(spec):
        text = "do not delete it: `rigops apply` records it"
        fix = Fix(kind="apply", concern=name, is_declared=True, text=text)
    summary = f"looks like rigops' key for {name}, and is not recorded: do not delete it"
    return Finding("warn", summary, subject=path, fix=fix)
