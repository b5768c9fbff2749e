"""How fast the cards run, what holds them back, and whether they have the declared clocks."""

from __future__ import annotations

from typing import Final

from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Fix, fix_by_hand
from rigops.doctor.views import reported
from rigops.doctor.views.cards import chosen
from rigops.doctor.views.declared import CARD_NEEDS, judge_card
from rigops.doctor.views.reported import NotReported
from rigops.inventory.spec import choice as per_gpu
from rigops.inventory.spec.model import Clocks
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.smi.report import SmiGpu

# Under load, with nothing that explains it, a card keeps more than this share of what it may run.
LEAST_SHARE: Final = 0.6
_NORMAL = {
    "gpu_idle": "idle",
    "applications_clocks": "at the clocks that were set",
    "sw_power_cap": "at its power limit",
    "sync_boost": "in step with other cards",
    "display_clocks": "at the display's clocks",
}
_IDLE_WHY = (
    "Idle, at the power limit or at clocks that were set is normal. So is P0 with 40 W at idle on "
    "SXM2 modules, which have no lower state, and a PCIe link at generation 1 while nothing moves."
)
_HOT = {
    "hw_thermal_slowdown": "the card has halved its clocks, or more, because it is too hot",
    "hw_power_brake": "the power brake of the supply or the board holds the card back",
}
# Below this utilisation a card may clock down as it likes.
BUSY_PERCENT: Final = 50
_KEY = "gpu_clocks"


@Check("clk.throttle", needs=(SMI,), fixes=("hands",), cause_rank=1010)
@reported.each_card(
    "only normal reasons limit clocks", evidence=r"clocks_(throttle|event)_reasons/"
)
def throttle(_: Examined, __: Card, smi: SmiGpu) -> Finding | NotReported:
    """Only normal reasons limit the cards' clocks.

    Reads the reasons why the driver limits each card's clocks right now. Idle, the power limit,
    clocks that were set and the display are normal, and so is P0 with 40 W at idle on SXM2 modules.
    The driver's thermal slowdown (0x20) is a warning; the hardware's thermal slowdown (0x40) and
    the power brake (0x80) fail. The bare hardware slowdown (0x8) fails under load, and is
    information at idle, where it may pass.
    """
    reasons = smi.throttle
    if reasons is None:
        return NotReported("why the clocks are limited is not reported")
    data: dict[str, object] = {"reasons": sorted(reasons)}
    for reason, summary in _HOT.items():
        if reason in reasons:
            return Finding("fail", summary, data=data, fix=_cooler(reason))
    if "hw_slowdown" in reasons:
        return _slowed(smi, data)
    if "sw_thermal_slowdown" in reasons:
        return Finding(
            "warn",
            "the driver lowers the clocks because the card is too warm",
            data=data,
            fix=_cooler("sw_thermal_slowdown"),
        )
    normal = ", ".join(words for reason, words in _NORMAL.items() if reason in reasons)
    return Finding("ok", normal or "at full speed", why=_IDLE_WHY)


def _slowed(smi: SmiGpu, data: dict[str, object]) -> Finding:
    """The bit alone, without its cause: at idle it may be set for a moment and mean nothing."""
    is_idle = "gpu_idle" in (smi.throttle or ()) or smi.utilization_percent == 0
    if is_idle:
        return Finding(
            "info",
            "a hardware slowdown is signalled while the card is idle, without its cause",
            why="At idle this may pass. If it lasts under load, look at power and heat.",
            data=data,
        )
    return Finding(
        "fail",
        "the hardware has slowed the card down without naming a cause",
        why="Heat, the power brake, or too little power at the card's plugs.",
        data=data,
        fix=_cooler("hw_slowdown"),
    )


def _cooler(reason: str) -> Fix:
    if reason == "hw_power_brake":
        return fix_by_hand(
            "look at the supply that feeds this card, its load, its fan and its temperature"
        )
    return fix_by_hand(
        "clean the coolers, put a slot of air between the cards, check that the fans turn and "
        "the plugs sit, and lower gpu_power_limit until it is gone"
    )


@Check("clk.lost", needs=(SMI,), fixes=("hands",))
@reported.each_card("the cards under load keep their clocks", evidence=r"^(max_)?clocks/")
def lost(examined: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """No card is stuck at low clocks under load.

    Only cards that are at least half busy are judged: idle ones clock down, as they should. Under
    load the SM clock should be above 60 % of the card's limit (its maximum, or the application
    clocks, or the declared cap). Less is ok when the driver names a reason, such as the power
    limit, and a warning when it names none: then the card is stuck, as after Xid 62 or with a power
    plug missing.
    """
    busy, live, most = smi.utilization_percent, smi.mhz_sm, _most(examined, card, smi)
    if busy is None:
        return NotReported("the card does not report how busy it is")
    if busy < BUSY_PERCENT:
        return Finding("skipped", "no card is under load: clocks are low then")
    if live is None or most is None or smi.throttle is None:
        return Finding("unknown", "under load, and its clock is not reported")
    if live >= most * LEAST_SHARE:
        return Finding("ok", f"{live} MHz under load")
    explained = [words for reason, words in _NORMAL.items() if reason in smi.throttle]
    others = smi.throttle - _NORMAL.keys()
    if explained or others:
        named = ", ".join([*explained, *sorted(others)])
        return Finding("ok", f"{live} MHz under load: {named}")
    return Finding(
        "warn",
        f"{live} MHz under load ({busy}%), where {most} MHz are possible",
        why="A card that is stuck at its lowest clocks has lost its power controller (Xid 62), "
        "or misses a power plug. A clock lock set by hand looks the same.",
        data={"mhz": live, "possible": most, "utilization": busy},
        fix=fix_by_hand(
            "`nvidia-smi -rgc -rac` if a lock was set by hand; else power off, unplug for "
            "a minute, seat the card's power plugs, and start again"
        ),
    )


def _most(examined: Examined, card: Card, smi: SmiGpu) -> int | None:
    """The card's highest clock: its own maximum, or less where that was set or declared."""
    declaration = examined.spec.gpu_clocks
    wanted = chosen(examined, declaration, card).value if declaration else None
    caps = [smi.mhz_max_sm, smi.mhz_application_graphics]
    if wanted and wanted.graphics_mhz:
        caps.append(wanted.graphics_mhz[1])
    return min((cap for cap in caps if cap), default=None) if smi.mhz_max_sm else None


@Check("clk.app", needs=CARD_NEEDS, fixes=("apply", "hands"), keys=frozenset({_KEY}))
@reported.each_card("the cards have the declared clocks", evidence=r"(^|/)(applications_)?clocks/")
def declared(examined: Examined, card: Card, _: SmiGpu) -> Finding:
    """The cards have the declared clocks.

    Compares `gpu_clocks` with each card, as plan does. Application clocks have to be equal (V100:
    877,1005). The driver does not report locked clocks: rigops must have set them in this boot, and
    the present clock may be 15 MHz above them, of the memory 50 MHz. A difference is a warning;
    clocks that the card does not accept fail. It is skipped without a declaration.
    """
    clocks = examined.spec.gpu_clocks
    if clocks and not chosen(examined, clocks, card).is_certain:
        return Finding(
            "unknown", "gpu_clocks names cards by UUID, and which is this one is not known"
        )
    declare = {_KEY: per_gpu.declaration(clocks, _written)} if clocks else {}
    found = judge_card(examined, card, "clk.app", declare)
    return found or Finding("skipped", "no clocks are declared for this card")


def _written(clocks: Clocks) -> str:
    named = (
        ("graphics", clocks.graphics_mhz),
        ("memory", clocks.memory_mhz),
        ("application", clocks.application_mhz),
    )
    return " ".join(f"{name}={pair[0]},{pair[1]}" for name, pair in named if pair)
