"""Whether each card has the power limit that is declared, and takes the one that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.thermal_guard.record import lowered
from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import reported
from rigops.doctor.views.cards import chosen
from rigops.doctor.views.reported import NotReported
from rigops.inventory.spec import choice as per_gpu
from rigops.inventory.spec.gpu import written_limit
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined
    from rigops.inventory.spec.choice import Choice
    from rigops.inventory.spec.model import PowerLimit
    from rigops.probe.smi.report import SmiGpu


TOLERANCE_WATTS: Final = 1.0  # nvidia-smi rounds

_KEY = "gpu_power_limit"
_SILENTLY = (
    "A limit below what a card takes is refused, and where a unit sets it, nobody reads the "
    "refusal: the card keeps its default and draws more than was planned for."
)


@Check("pwr.limit", needs=(SMI, RIGOPS_STATE), fixes=("apply", "hands"), keys=frozenset({_KEY}))
@reported.each_card(
    "every card has the power limit it should have", evidence=r"power_readings.*power_limit"
)
def limit(examined: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """Every card has the power limit that is declared.

    Compares the limit in force that nvidia-smi reads back from each card with `gpu_power_limit`,
    within 1 W because nvidia-smi rounds. A declaration outside the card's own range fails: an RTX
    5090 takes no less than 400 W, and a lower limit has been seen to be dropped without a word.
    Another limit than the declared one is a warning. Without a declaration a card at its default is
    well, and one that was capped by hand is information, because the next reboot forgets the cap.
    Cards that do not report their limit (laptops) are not judged. A limit that the thermal guard
    has lowered because of heat is information: it gives it back by itself.
    """
    if guarded := _guarded(examined, smi):
        return guarded
    declaration = examined.spec.gpu_power_limit
    choice = chosen(examined, declaration, card) if declaration else None
    if choice and not choice.is_certain:
        return Finding(
            "unknown", "gpu_power_limit names cards by UUID, and which is this one is not known"
        )
    if choice and choice.value:
        return _declared(examined, card, smi, choice.value, choice)
    return _undeclared(card, smi)


def _guarded(examined: Examined, smi: SmiGpu) -> Finding | None:
    state = examined.snapshot[RIGOPS_STATE].value
    found = lowered(state.records) if state else {}
    # A redacted report has other UUIDs than the card's own.
    held = found.get(smi.uuid or "") or found.get(smi.address or "")
    live = smi.watts_requested if smi.watts_requested is not None else smi.watts_limit
    if held is None or held.watts is None or live is None:
        return None
    if abs(live - held.watts) > TOLERANCE_WATTS:
        return None
    return Finding(
        "info",
        f"the thermal guard has lowered it to {held.watts:g} W: {held.why}",
        why="It gives the limit back by itself once the card is cool.",
        data={"in_force": live, "before": held.watts_before},
    )


def _declared(
    examined: Examined, card: Card, smi: SmiGpu, declared: PowerLimit, choice: Choice[PowerLimit]
) -> Finding | NotReported:
    watts = declared.watts
    if watts is None and declared.percent is not None and smi.watts_default is not None:
        watts = smi.watts_default * declared.percent / 100
    if watts is None:
        return Finding(
            "unknown",
            f"{declared.percent:g}% of the default is declared, and the default is not known",
        )
    if smi.watts_min is not None and watts < smi.watts_min - TOLERANCE_WATTS:
        return _impossible(examined, smi, watts, smi.watts_min, choice)
    if smi.watts_max is not None and watts > smi.watts_max + TOLERANCE_WATTS:
        return _impossible(examined, smi, watts, smi.watts_max, choice)
    if smi.watts_limit is None:
        return Finding(
            "unknown", f"declared {watts:g} W, and nvidia-smi does not report the limit in force"
        )
    if abs(smi.watts_limit - watts) <= TOLERANCE_WATTS:
        return Finding("ok", f"limited to {watts:g} W, as declared")
    return _drifted(examined, card, smi.watts_limit, watts)


def _impossible(
    examined: Examined, smi: SmiGpu, watts: float, nearest: float, choice: Choice[PowerLimit]
) -> Finding:
    force = f"; {smi.watts_limit:g} W is in force" if smi.watts_limit is not None else ""
    return Finding(
        "fail",
        f"declared {watts:g} W, but this card takes {_range(smi)}{force}",
        why=_SILENTLY,
        data=_data(smi, watts),
        fix=Fix(
            kind="hands",
            declare={_KEY: _replaced(examined, choice, nearest)},
            text=f"change the declaration: gpu_power_limit for this card must be {_range(smi)}",
        ),
    )


def _drifted(examined: Examined, card: Card, live: float, watts: float) -> Finding:
    declaration = examined.spec.gpu_power_limit
    declared = per_gpu.declaration(declaration, written_limit) if declaration else watts
    return Finding(
        "warn",
        f"power limit is {live:g} W, declared {watts:g} W",
        why="A limit is gone after a reboot and whenever the driver is unloaded, unless a unit "
        "sets it again; and of several units the last one wins.",
        data={"declared": watts, "in_force": live},
        fix=Fix(
            kind="apply",
            concern="gpu_tuning",
            declare={_KEY: declared},
            text="`rigops apply` sets the limit now and at every boot, and reads it back",
            by_hand=f"`nvidia-smi -pm 1`, then `nvidia-smi -i {card.address} -pl {watts:g}`; and "
            "a systemd unit that does the same after nvidia-persistenced.service",
        ),
    )


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
        f"`gpu_power_limit = {live:g}` in the inventory keeps it for good.",
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


def _replaced(examined: Examined, choice: Choice[PowerLimit], watts: float) -> object:
    """The declaration, with a value for this selector that works."""
    declaration = examined.spec.gpu_power_limit
    whole = per_gpu.declaration(declaration, written_limit) if declaration else None
    if isinstance(whole, dict) and choice.selector:
        return {**whole, choice.selector.text: _number(watts)}
    return _number(watts)


def _number(watts: float) -> int | float:
    return int(watts) if watts == int(watts) else watts
