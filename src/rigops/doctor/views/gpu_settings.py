"""What the judge of gpu_tuning says of the cards, as findings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rigops.concerns.gpu_tuning import NAME as CONCERN
from rigops.concerns.gpu_tuning import decide
from rigops.concerns.gpu_tuning.state import CHECKS, describe
from rigops.concerns.state import AS_DECLARED, DIFFERS, HELD, LEFT_OVER, UNKNOWN
from rigops.dataclass import dataclass
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.once import once
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.state import State
    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Status
    from rigops.probe.smi.report import SmiGpu

LOOKS_INTO: Final = (SMI, RIGOPS_STATE, BOOT)

_GRAVEST_FIRST: Final[Mapping[str, Status]] = {
    DIFFERS: "warn",
    LEFT_OVER: "warn",
    UNKNOWN: "unknown",
    HELD: "info",
    AS_DECLARED: "ok",
}
_WHY: Final = (
    "The driver forgets its settings at a reboot, when it is unloaded and, without persistence, "
    "when the last program ends; and of several units that set them the last one wins."
)


@dataclass(frozen=True)
class Judged:
    """By card and check. `blocker`: why apply changes nothing, or nothing."""

    is_declared: bool
    blocker: str
    refusals: Mapping[tuple[str, str], str]
    states: Mapping[tuple[str, str], list[State]]


@once
def judged(examined: Examined) -> Judged:
    spec, snapshot = examined.spec, examined.snapshot
    declared = decide.Declared(
        persistence=spec.gpu_persistence, power=spec.gpu_power_limit, clocks=spec.gpu_clocks
    )
    report, rigops = snapshot[SMI].or_empty, snapshot[RIGOPS_STATE]
    cards = decide.find_cards(report, examined.catalog)
    tuning = decide.resolve(declared, cards)
    # What was set is known of the present boot alone, and where no record can be missing.
    boot_id = snapshot[BOOT].or_empty.boot_id if rigops.is_complete else None
    states = defaultdict(list)
    for one in decide.judged(tuning.wanted, cards, rigops.or_empty.records, boot_id):
        states[one.subject, CHECKS[one.key]].append(one)
    return Judged(
        is_declared=bool(declared),
        blocker=decide.unreadable(report) or next(iter(tuning.blockers), ""),
        refusals={(_place(one.card.smi), one.check): one.text for one in tuning.refusals},
        states=states,
    )


def _place(smi: SmiGpu | None) -> str:
    return (smi and (smi.address or smi.uuid)) or ""


def judge(
    examined: Examined, card: Card, check: str, declare: Mapping[str, object]
) -> Finding | None:
    """What is declared for a card, or is left over there. None: neither.

    `declare`: the value of its key, where it is in the inventory.
    """
    found, place = judged(examined), (_place(card.smi), check)
    if refusal := found.refusals.get(place):
        what, _, fix = refusal.partition(". fix: ")
        return Finding("fail", what, fix=Fix(kind="hands", text=fix))
    states = found.states.get(place)
    if not states:
        return None
    worst = next(one for one in _GRAVEST_FIRST if one in {each.status for each in states})
    gravest = [one for one in states if one.status == worst]
    summary = "; ".join(map(describe, gravest))
    if worst == LEFT_OVER and not found.is_declared:  # apply undoes a whole concern if asked to
        return Finding("info", summary)
    advised = _fix(found.blocker, worst, declare) if gravest[0].is_to_change else None
    why = _WHY if worst == DIFFERS else ""
    return Finding(_GRAVEST_FIRST[worst], summary, why=why, fix=advised)


def _fix(blocker: str, status: str, declare: Mapping[str, object]) -> Fix:
    if blocker:
        return Fix(kind="hands", text=f"apply changes nothing here yet: {blocker}")
    does = "sets it now and at every boot, and reads it back" if status == DIFFERS else "undoes it"
    return Fix(
        kind="apply",
        concern=CONCERN,
        declare=declare or None,
        text=f"`rigops apply` {does}",
        is_declared=True,
    )
