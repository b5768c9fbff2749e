"""What the judge of gpu_tuning says of the cards, as findings."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.concerns.gpu_tuning import decide
from rigops.concerns.gpu_tuning.concern import NAME as CONCERN
from rigops.concerns.gpu_tuning.state import KEYS, describe
from rigops.concerns.state import AS_DECLARED, DIFFERS, HELD, LEFT_OVER, UNKNOWN
from rigops.dataclass import dataclass
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.once import once
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigops.concerns.state import State
    from rigops.doctor.check import Examined
    from rigops.doctor.finding import Status
    from rigops.doctor.views.cards import Card

LOOKS_INTO: Final = (SMI, RIGOPS_STATE, BOOT)

_GRAVEST_FIRST: Final[Mapping[str, Status]] = {
    DIFFERS: "warn",
    LEFT_OVER: "warn",
    UNKNOWN: "unknown",
    HELD: "info",
    AS_DECLARED: "ok",
}
_OPTIONS: Final = {
    "persistence": "-pm",
    "power": "-pl",
    "graphics": "-lgc",
    "memory": "-lmc",
    "application": "-ac",
}
_WHY: Final = (
    "The driver forgets its settings at a reboot, when it is unloaded and, without persistence, "
    "when the last program ends; and of several units that set them the last one wins."
)


@dataclass(frozen=True)
class Judged:
    """`blocker`: why apply changes nothing, or nothing."""

    is_declared: bool
    blocker: str
    refusals: Mapping[tuple[str, str], str]  # by card and key
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
        states[one.subject, KEYS[one.key]].append(one)
    return Judged(
        is_declared=bool(declared),
        blocker=decide.unreadable(report) or next(iter(tuning.blockers), ""),
        refusals={
            (one.card.identity.address or one.card.key, one.key): one.text
            for one in tuning.refusals
        },
        states=states,
    )


def judge(examined: Examined, card: Card, key: str, declared: object) -> Finding | None:
    """Of what `key` declares for a card, or what is left over of it. None: neither is there.

    `declared`: its value as in an inventory; None where it is not there.
    """
    found = judged(examined)
    place = ((card.smi and (card.smi.address or card.smi.uuid)) or "", key)
    if refusal := found.refusals.get(place):
        what, _, fix = refusal.partition(". fix: ")
        return Finding("fail", what, fix=Fix(kind="hands", text=fix))
    states = found.states.get(place, [])
    worst = next((one for one in _GRAVEST_FIRST if one in {each.status for each in states}), None)
    if worst is None:
        return None
    gravest = [one for one in states if one.status == worst]
    summary = "; ".join(map(describe, gravest))
    if worst == LEFT_OVER and not found.is_declared:  # apply undoes a whole concern if asked to
        return Finding("info", summary)
    finding = Finding(_GRAVEST_FIRST[worst], summary, why=_WHY if worst == DIFFERS else "")
    if worst not in {DIFFERS, LEFT_OVER}:
        return finding
    return replace(finding, fix=_fix(card, found.blocker, gravest, key, declared))


def _fix(card: Card, blocker: str, states: Sequence[State], key: str, declared: object) -> Fix:
    if blocker:
        return Fix(kind="hands", text=f"apply changes nothing here yet: {blocker}")
    if states[0].status == LEFT_OVER:
        return Fix(kind="apply", concern=CONCERN, text="`rigops apply` undoes it", is_declared=True)
    commands = ", ".join(
        f"`nvidia-smi -i {card.address} {_OPTIONS[one.key]} {one.wanted}`" for one in states
    )
    return Fix(
        kind="apply",
        concern=CONCERN,
        declare=None if declared is None else {key: declared},
        text="`rigops apply` sets it now and at every boot, and reads it back",
        by_hand=f"`nvidia-smi -pm 1`, then {commands}; and a systemd unit that does the same after "
        "nvidia-persistenced.service",
        is_declared=True,
    )
