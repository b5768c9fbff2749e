"""Whether each card has the power limit that is declared, and takes the one that it was given."""

from __future__ import annotations

from dataclasses import replace

from rigops.concerns.gpu_tuning.state import TOLERANCE_WATTS
from rigops.concerns.thermal_guard.record import lowered
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import reported
from rigops.doctor.views.cards import chosen
from rigops.doctor.views.declared import CARD_NEEDS, judge_card
from rigops.doctor.views.reported import NotReported
from rigops.inventory.spec import choice as per_gpu
from rigops.inventory.spec.choice import Choice
from rigops.inventory.spec.gpu import written_limit
from rigops.inventory.spec.model import PowerLimit
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.smi.report import SmiGpu

_KEY = "gpu_power_limit"
_SILENTLY = (
    "A limit below a card's minimum is refused, and where a unit sets it, nobody reads the "
    "refusal: the card keeps its default and draws more than was planned for."
)


@Check("pwr.limit", needs=CARD_NEEDS, fixes=("apply", "hands"), keys=frozenset({_KEY}))
@reported.each_card(
    "every card has the power limit it should have", evidence=r"power_readings.*power_limit"
)
def limit(examined: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """Every card has the power limit that is declared.

    Compares `gpu_power_limit` with each card, as plan does, within 1 W because nvidia-smi rounds. A
    declaration that the card does not accept fails: an RTX 5090 takes no less than 400 W, and a
    lower limit is known to be dropped silently. Another limit than the declared one is a warning.
    Where the card itself keeps a lower one in force than was requested, or the thermal guard has
    lowered it because of heat, it is information. Without a declaration a card at its default is
    ok, one that was capped by hand is information, because the next reboot forgets the cap, and one
    that does not report its limit (laptops) is not judged.
    """
    declared = examined.spec.gpu_power_limit
    choice = chosen(examined, declared, card) if declared else None
    if choice and not choice.is_certain:
        return Finding(
            "unknown", "gpu_power_limit names cards by UUID, and which is this one is not known"
        )
    declare = {_KEY: per_gpu.declaration(declared, written_limit)} if declared else {}
    found = judge_card(examined, card, "pwr.limit", declare)
    if found is None:
        return _guarded(examined, smi) or _undeclared(card, smi)
    watts = _watts(smi, choice.value) if choice and choice.value else None
    fix = found.fix
    if found.status == "fail" and fix and choice and watts is not None:
        nearest = min(max(watts, smi.watts_min or watts), smi.watts_max or watts)
        fix = replace(fix, declare={_KEY: _replaced(declare[_KEY], choice, nearest)})
    return replace(found, data=_data(smi, watts), fix=fix)


def _watts(smi: SmiGpu, declared: PowerLimit) -> float | None:
    if declared.percent is None or smi.watts_default is None:
        return declared.watts
    return smi.watts_default * declared.percent / 100


def _guarded(examined: Examined, smi: SmiGpu) -> Finding | None:
    """Where nothing is declared that the guard could give back."""
    found = lowered(examined.snapshot[RIGOPS_STATE].or_empty.records)
    # A redacted report has other UUIDs than the card's own.
    held = found.get(smi.uuid or "") or found.get(smi.address or "")
    live = smi.watts_requested if smi.watts_requested is not None else smi.watts_limit
    if held and held.watts and live and abs(live - held.watts) <= TOLERANCE_WATTS:
        return Finding("info", f"the thermal guard has lowered it to {held.watts:g} W: {held.why}")
    return None


def _undeclared(card: Card, smi: SmiGpu) -> Finding | NotReported:
    live, asked, least = smi.watts_limit, smi.watts_requested, smi.watts_min
    for watts, how in ((live, "in force"), (asked, "requested")):
        if watts is not None and least is not None and watts < least - TOLERANCE_WATTS:
            return _below(card, smi, f"{watts:g} W is {how}, and this card takes {_range(smi)}")
    if live is None:
        return NotReported("this card does not report its power limit, as laptop cards do not")
    if smi.watts_default is None or least is None or asked is None:
        return Finding(
            "unknown", f"limited to {live:g} W, and the card's own range and default are not known"
        )
    if abs(live - smi.watts_default) <= TOLERANCE_WATTS:
        return Finding("ok", f"at its default of {live:g} W")
    return Finding(
        "info",
        f"{'capped' if live < smi.watts_default else 'raised'} by hand: {live:g} W; "
        f"the default is {smi.watts_default:g} W",
        why="It is kept until the next reboot, unless a unit sets it at boot. "
        f'`"gpu_power_limit": {live:g}` in the inventory keeps it for good.',
        data=_data(smi, None),
    )


def _below(card: Card, smi: SmiGpu, summary: str) -> Finding:
    return Finding(
        "warn",
        summary,
        why=_SILENTLY,
        data=_data(smi, None),
        fix=Fix(
            kind="hands",
            declare={_KEY: {card.address: _number(smi.watts_min or 0.0)}},
            text=f"set a limit of {_range(smi)}: declare gpu_power_limit for this card, or "
            "correct the unit or script that sets less",
        ),
    )


def _range(smi: SmiGpu) -> str:
    least = f"{smi.watts_min:g}" if smi.watts_min is not None else "?"
    most = f"{smi.watts_max:g}" if smi.watts_max is not None else "?"
    return f"{least} to {most} W"


def _data(smi: SmiGpu, declared: float | None) -> dict[str, object]:
    return {
        "declared": declared,
        "in_force": smi.watts_limit,
        "default": smi.watts_default,
        "min": smi.watts_min,
        "max": smi.watts_max,
    }


def _replaced(whole: object, choice: Choice[PowerLimit], watts: float) -> object:
    """The declaration, with a value for this selector that works."""
    if isinstance(whole, dict) and choice.selector:
        return {**whole, choice.selector.text: _number(watts)}
    return _number(watts)


def _number(watts: float) -> int | float:
    return int(watts) if watts == int(watts) else watts
