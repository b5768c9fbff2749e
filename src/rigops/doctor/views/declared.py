"""Judgements of the concerns' judges as findings, and the fix for a unit that does not run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, cast

from rigops.concerns.concern import Concern, States
from rigops.concerns.gpu_tuning.concern import GPU_TUNING
from rigops.concerns.state import (
    AS_DECLARED,
    DIFFERS,
    FAILING,
    HELD,
    IN_DOUBT,
    LEFT_OVER,
    NOT_HERE,
    REFUSED,
    UNKNOWN,
    State,
)
from rigops.dataclass import dataclass
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, Status, fix_by_hand
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.rigops_state import OwnedUnit

CARD_NEEDS: Final = (SMI, RIGOPS_STATE, BOOT)  # of judge_card

_GRAVEST_FIRST: Final[Mapping[str, Status]] = {
    REFUSED: "fail",
    FAILING: "fail",
    IN_DOUBT: "warn",
    DIFFERS: "warn",
    LEFT_OVER: "warn",
    UNKNOWN: "unknown",
    HELD: "info",
    AS_DECLARED: "ok",
    NOT_HERE: "skipped",
}
_WHY: Final = (
    "Settings of a running machine are lost at a reboot or with the driver, and of several "
    "programs that set them the last one wins."
)


@dataclass(frozen=True)
class Judged:
    """`states`: by check and subject. `blocker`: why apply changes nothing, or nothing."""

    states: Mapping[tuple[str, str], Sequence[State]]
    blocker: str


def _judged(examined: Examined, states: States) -> Judged:
    """Worked out once for all checks and cards."""
    if states.judge not in examined.views:
        found = defaultdict(list)
        every = states.judge(examined.spec, examined.snapshot, examined.catalog)
        for state in every:
            found[state.check, state.subject].append(state)
        blocker = next((state.why for state in every if state.status == REFUSED), "")
        examined.views[states.judge] = Judged(found, blocker)
    return cast("Judged", examined.views[states.judge])


def judge(
    examined: Examined,
    concern: Concern,
    check: str,
    subject: str = HOST,
    *,
    declare: Mapping[str, object] | None = None,
) -> Finding | None:
    """The declaration of this subject, or what is left over there. None: neither.

    `declare`: the value of its key, where it is in the inventory.
    """
    if concern.states is None:
        return None
    judged = _judged(examined, concern.states)
    states = judged.states.get((check, subject))
    if not states:
        return None
    worst = next(one for one in _GRAVEST_FIRST if one in {state.status for state in states})
    gravest = [state for state in states if state.status == worst]
    section = concern.states.needs()[0].name
    lines = dict.fromkeys(line for state in gravest for line in state.evidence)
    evidence = tuple(Evidence(section, line) for line in lines)
    summary = "; ".join(state.text for state in gravest)
    if worst == REFUSED:
        what, _, fix = gravest[0].why.partition(". fix: ")
        return Finding(_GRAVEST_FIRST[worst], what, evidence, fix=fix_by_hand(fix))
    # Apply undoes a whole concern only if asked to.
    if worst == LEFT_OVER and not concern.declared_keys(examined.spec):
        return Finding("info", summary, evidence)
    advised = None
    if gravest[0].is_to_change:
        advised = _fix(concern.name, judged.blocker, worst, declare)
    why = _WHY if worst == DIFFERS else ""
    return Finding(_GRAVEST_FIRST[worst], summary, evidence, why=why, fix=advised)


def judge_card(
    examined: Examined, card: Card, check: str, declare: Mapping[str, object]
) -> Finding | None:
    """Of gpu_tuning's judge on a card."""
    place = card.smi and (card.smi.address or card.smi.uuid)
    return judge(examined, GPU_TUNING, check, f"gpu {place}", declare=declare)


def start_unit(
    name: str,
    unit: OwnedUnit | None,
    concern: str,
    declare: Mapping[str, object] | None = None,
) -> Fix:
    """Apply starts it too, unless it is masked."""
    if unit is not None and unit.enabled == "masked":
        return fix_by_hand(f"sudo systemctl unmask {name}")
    text = "`rigops apply` installs and starts it"
    return Fix(kind="apply", concern=concern, declare=declare, is_declared=True, text=text)


def _fix(concern: str, blocker: str, status: str, declare: Mapping[str, object] | None) -> Fix:
    if blocker:
        return fix_by_hand(f"apply changes nothing here yet: {blocker}")
    does = "sets it now and at every boot, and reads it back" if status == DIFFERS else "undoes it"
    return Fix(
        kind="apply",
        concern=concern,
        declare=declare or None,
        text=f"`rigops apply` {does}",
        is_declared=True,
    )
