"""Findings of a paste: a check is judged by the outputs that are in it, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.probe.registry import PASTED
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.pasted import SECTION as ALL_LINES

if TYPE_CHECKING:
    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.probe.bundle import Bundle

NOT_DECIDED: Final = "no output in the paste decides it"
_NOTHING: Final = "nothing in this paste can be judged: {}"
# Outputs of which each is the whole answer to one question: people paste them to have it judged.
_ANSWERS: Final = frozenset(
    {section.name for section in PASTED} - {ALL_LINES.name} | {P2P_READ.name}
)


def judged(bundle: Bundle, found: Sequence[tuple[Check, Finding]]) -> list[tuple[Check, Finding]]:
    """Unknown is only a pasted output that cannot be judged; without any the whole paste is."""
    told = [(check, _judged(bundle, check, finding)) for check, finding in found]
    if all(finding.status == "skipped" for _, finding in told):
        found = sorted(found, key=lambda one: (one[1].essential, one[0].cause_rank))
        for check, finding in found[-1:]:
            summary = _NOTHING.format(finding.summary)
            unknown = replace(finding, status="unknown", summary=summary, essential=True)
            return [(check, unknown), *(one for one in told if one[0] is not check)]
    return told


def _judged(bundle: Bundle, check: Check, finding: Finding) -> Finding:
    looked_into = (*check.needs, *check.sections)
    sections = [section.name for section in looked_into if section.name in bundle.sections]
    cited = [line.section for line in finding.evidence]
    by = next((name for name in (finding.judged_by, *cited, *sections) if name in sections), "")
    if finding.status != "unknown":
        return replace(finding, judged_by=by)
    if _is_pasted(bundle, check, finding):
        return replace(finding, judged_by=by, essential=True)
    return replace(
        finding, status="skipped", summary=NOT_DECIDED, why=finding.summary, fix=None, data={}
    )


def _is_pasted(bundle: Bundle, check: Check, finding: Finding) -> bool:
    """Whether what cannot be judged is in the paste."""
    is_cut = bundle.paste is not None and bool(bundle.paste.cut) and check.id == "gpu.count"
    answers = _ANSWERS.intersection(section.name for section in check.needs)
    return is_cut or bool(answers.intersection(bundle.sections) and finding.evidence)
