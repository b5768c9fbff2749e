"""Temperatures of the cards and of their memory, fans, and the guard that acts on heat."""

from __future__ import annotations

from typing import Final

from rigops import json_fields
from rigops.concerns.thermal_guard import NAME, record
from rigops.concerns.thermal_guard.decide import UNIT, unwatchable
from rigops.concerns.thermal_guard.record import GuardState
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import peers, reported
from rigops.doctor.views.declared import start_unit
from rigops.doctor.views.reported import NotReported
from rigops.inventory.spec.model import ThermalLimit
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.rigops_state import OwnedUnit
from rigops.probe.smi.report import SmiGpu

MARGIN_CELSIUS: Final = 5.0  # so near to its slowdown, a warmer day is enough
# For cards that do not report where they slow down: the known ones do from 82 °C (P100) to 102 °C.
SURELY_WELL_CELSIUS: Final = 75.0
SURELY_HOT_CELSIUS: Final = 85.0
# Memory that reports no limit of its own: the lowest that a card reports is 85 °C (V100).
MEMORY_CELSIUS: Final = 85.0
MEMORY_FAIL_ABOVE: Final = 8.0  # over its own limit: from a warning to a failure
FAN_CELSIUS: Final = 60.0  # many fans rest below 50 to 60 °C, to be quiet
OUTLIER_CELSIUS: Final = 15.0  # cards above one another differ by about ten
OUTLIER_FROM_CELSIUS: Final = 60.0
_LIKE_POWER: Final = 0.15
_BELIEVED_CELSIUS: Final = (0.0, 150.0)
_LEAST_THRESHOLD: Final = 50.0  # below, it is a distance to the limit and no temperature
_HOT_CARD = fix_by_hand(
    "clean the cooler and its fan, leave a slot of air between cards (blower cards between "
    "open ones), take the side panel off, and lower gpu_power_limit"
)

LATE_S: Final = 90.0  # the guard writes its record every 20 s
_FAILING_STEPS: Final = frozenset({"stop-jobs", "poweroff"})


@Check("tmp.core", needs=(SMI,), fixes=("hands",))
@reported.each_card(
    "no card is near its slowdown temperature",
    evidence=r"temperature/gpu_(temp$|current|slow|temp_slow|temp_tlimit|t_limit)",
)
def core(_: Examined, __: Card, smi: SmiGpu) -> Finding | NotReported:
    """No card is near the temperature at which it slows down.

    Compares each chip's temperature with the slowdown temperature that the same card reports, or,
    where the driver reports the degrees that are left (T.Limit), those with the number at which the
    card slows down. Reaching it fails, within 5 °C of it is a warning. Cards and drivers that
    report neither are ok below 75 °C and a warning from 85 °C on, because the known cards slow down
    between 82 and 102 °C. Measure it under load.
    """
    now = _believed(smi.celsius)
    if now is None:
        return _no_temperature(smi)
    slowdown = _slowdown(smi, now)
    if slowdown is None:
        return _without_threshold(now)
    data = {"celsius": now, "slowdown": slowdown}
    if now >= slowdown:
        return Finding(
            "fail", f"{now:g} °C: it slows down from {slowdown:g} °C", data=data, fix=_HOT_CARD
        )
    if now >= slowdown - MARGIN_CELSIUS:
        return Finding(
            "warn",
            f"{now:g} °C, and it slows down from {slowdown:g} °C",
            data=data,
            fix=_HOT_CARD,
        )
    return Finding("ok", f"{now:g} °C")


def _slowdown(smi: SmiGpu, now: float) -> float | None:
    """Where the driver reports distances: where the card will be once they are used up."""
    reported_at, left_then = smi.celsius_slowdown, smi.celsius_left_slowdown
    if reported_at is not None and reported_at >= _LEAST_THRESHOLD:
        return reported_at
    if smi.celsius_left is None:
        return None
    return now + smi.celsius_left - next((one for one in (left_then, reported_at) if one), 0.0)


def _no_temperature(smi: SmiGpu) -> Finding | NotReported:
    if smi.celsius is not None:
        summary = f"its temperature sensor reports {smi.celsius:g} °C, which is impossible"
    elif {"temperature/gpu_temp", "temperature/gpu_current_temp"} & smi.troubles.keys():
        summary = "its temperature sensor cannot be read"
    else:
        return NotReported("the card does not report its temperature")
    return Finding("unknown", summary)


@Check("tmp.outlier", needs=(SMI,), fixes=("hands",))
@reported.each_card(
    "no card is much hotter than its siblings",
    evidence=r"temperature/gpu_(temp$|current)|(power_draw|instant_power_draw)$",
)
def outlier(examined: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """No card is much hotter than its siblings at like power.

    Compares each card above 60 °C with the others of its kind that draw as much power, within 15 %.
    One that is 15 °C hotter than the hottest of them is a warning: its cooler or its place is
    worse than theirs. Cards that no other is like are skipped. Measure it under load.
    """
    now = _believed(smi.celsius)
    if now is None:
        return _no_temperature(smi)
    if smi.watts is None:
        return NotReported("the card does not report its power")
    if len(examined.cards) > peers.MOST_CARDS:
        return NotReported(f"rigops compares at most {peers.MOST_CARDS} cards")
    others = [
        warmth
        for other in examined.cards
        if (one := other.smi) is not None
        and other.address != card.address
        and other.name == card.name
        and one.watts is not None
        and abs(one.watts - smi.watts) <= _LIKE_POWER * smi.watts
        and (warmth := _believed(one.celsius)) is not None
    ]
    if not others:
        return NotReported("no two cards of a kind draw like power", expected=True)
    if now < OUTLIER_FROM_CELSIUS or now - max(others) < OUTLIER_CELSIUS:
        return Finding("ok", f"{now:g} °C at {smi.watts:g} W")
    return Finding(
        "warn",
        f"{now:g} °C at {smi.watts:g} W; its siblings are at {max(others):g} °C at most",
        why="At the same power a card can only be hotter if it gets less air, if its fan or pump "
        "is weaker, or if its paste is old or its cooler loose.",
        data={"celsius": now, "siblings": max(others)},
        fix=fix_by_hand(
            "give the card air (a slot between cards, a blower beside open ones), clean its "
            "cooler, and compare its fan with the others'; where it stays hot in another slot, "
            "renew its thermal paste"
        ),
    )


def _without_threshold(now: float) -> Finding:
    if now >= SURELY_HOT_CELSIUS:
        return Finding(
            "warn",
            f"{now:g} °C; its slowdown temperature is not reported",
            data={"celsius": now},
            fix=_HOT_CARD,
        )
    if now >= SURELY_WELL_CELSIUS:
        return Finding(
            "info",
            f"{now:g} °C; its slowdown temperature is not reported",
            why="Known cards do so from 82 °C or later.",
            data={"celsius": now},
        )
    return Finding("ok", f"{now:g} °C")


def _believed(celsius: float | None) -> float | None:
    low, high = _BELIEVED_CELSIUS
    return celsius if celsius is not None and low < celsius < high else None


@Check("tmp.mem", needs=(SMI,), fixes=("hands",))
@reported.each_card("the cards' memory is within its temperature", evidence=r"temperature/.*mem")
def memory(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """The cards' memory is within its temperature.

    Reads the memory's temperature where the driver reports it: V100, A100, H100 and the like. Above
    the card's own limit (85 °C where it names none) is a warning, 8 °C more a failure. GeForce and
    RTX cards do not report it: skipped, never ok.
    """
    now = _believed(smi.memory_celsius)
    if now is None:
        return _no_memory_temperature(card)
    own = smi.memory_celsius_max
    limit = own if own is not None and own >= _LEAST_THRESHOLD else MEMORY_CELSIUS
    if now < limit:
        return Finding("ok", f"memory at {now:g} °C")
    is_far = own is not None and now >= limit + MEMORY_FAIL_ABOVE
    return Finding(
        "fail" if is_far else "warn",
        f"the memory is at {now:g} °C; up to {limit:g} °C is ok",
        why="Memory that is too hot makes errors and ages; the card slows down to save it.",
        data={"celsius": now, "limit": limit},
        fix=fix_by_hand(
            "cool the card's back as well, renew the thermal pads of its memory, and "
            "lower the memory clock or gpu_power_limit"
        ),
    )


def _no_memory_temperature(card: Card) -> NotReported:
    if reported.is_geforce(card) or (card.model and not card.model.memory_temperature):
        return NotReported(
            "these cards do not report their memory's temperature",
            expected=True,
            why="This is to be expected: the driver keeps it from GeForce and RTX cards. The "
            "memory of a 3090 can be at 104 °C while the chip is at 70 °C.",
        )
    return NotReported("the card does not report its memory's temperature")


@Check("tmp.mem.gddr6", needs_gpu=False)
def memory_gddr6(_: Examined) -> Finding:
    """The temperature of GDDR6 and GDDR7 memory.

    Always skipped. The sensor can be read only through the card's registers (gddr6, which has had
    GDDR7 of the 5090 as an experiment since July 2026), with root and often with iomem=relaxed or
    without kernel lockdown; rigops does not weaken a host for a temperature. By experience GDDR6X
    is fine below 100 °C and throttles at 110 °C.
    """
    return Finding(
        "skipped",
        "the memory's own sensor is not read",
        why="GDDR6, GDDR6X and GDDR7 have sensors that the driver does not pass on. Programs that "
        "read it need the card's registers, and so root and often iomem=relaxed, which opens "
        "all of the host's memory to root: rigops does not ask for that.",
    )


@Check("tmp.fan", needs=(SMI,), fixes=("hands",))
@reported.each_card(
    "the cards' fans turn, or rest while it is cool",
    evidence=r"fan_speed$|temperature/gpu_(temp|current_temp)$",
)
def fan(_: Examined, __: Card, smi: SmiGpu) -> Finding | NotReported:
    """The cards' fans turn when it is warm.

    Reads each card's fan speed. ERR! or Unknown Error is a warning, and so is 0 % above 60 °C;
    below that many cards stop their fans. No value at all is normal for passive cards and SXM
    modules, which the case must cool.
    """
    if "fan_speed" in smi.troubles:
        return Finding(
            "warn",
            "its fan cannot be read",
            why="The card has lost its fan's controller, or is about to be lost altogether.",
            fix=_fan_fix(),
        )
    if smi.fan_percent is None:
        return NotReported(
            "the cards have no fan of their own",
            why="That is normal for passive cards and SXM modules: the case must cool them.",
        )
    if smi.fan_percent > 0:
        return Finding("ok", f"fan at {smi.fan_percent}%")
    now = _believed(smi.celsius)
    if now is None:
        return Finding("unknown", "its fan is stopped; temperature unknown")
    if now <= FAN_CELSIUS:
        return Finding("ok", f"its fan rests at {now:g} °C")
    return Finding(
        "warn",
        f"its fan is stopped at {now:g} °C",
        data={"celsius": now, "fan": 0},
        fix=_fan_fix(),
    )


def _fan_fix() -> Fix:
    return fix_by_hand(
        "look whether a cable blocks the fan and whether its plug sits; reset a manual fan "
        "speed; a dead fan can be replaced alone"
    )


@Check(
    "tmp.guard",
    needs=(RIGOPS_STATE, BOOT, SMI),
    fixes=("apply", "hands"),
    keys=frozenset({"thermal_limit"}),
)
def guard(examined: Examined) -> Finding:
    """The declared thermal guard runs, and takes no step.

    Looks at its service and at the record that it writes every 20 seconds. It fails where
    `thermal_limit` is declared and the service does not run or has written nothing for 90 seconds,
    where the cards do not report what is declared, and while the guard stops jobs or powers off;
    lower power and a message are a warning, with the reason. It is skipped without a declaration.
    """
    limit = examined.spec.thermal_limit
    if limit is None:
        return Finding("skipped", "thermal_limit is not declared")
    for reason in unwatchable(limit, examined.snapshot[SMI].or_empty):
        what, _, fix = reason.partition(". fix: ")
        return Finding("fail", what, fix=fix_by_hand(fix))
    answer = examined.snapshot[RIGOPS_STATE]
    state = answer.value
    if state is None or not state.are_files_known:
        return Finding("unknown", "the files and services of rigops were not collected")
    unit = state.units.get(UNIT)
    if unit is None and not answer.is_complete:
        return Finding("unknown", "the services of rigops were not collected whole")
    return _judge_guard(unit, limit) or _judge_running_guard(
        examined, state.records.get(record.PATH, "")
    )


def _judge_guard(unit: OwnedUnit | None, limit: ThermalLimit) -> Finding | None:
    if unit is None:
        return Finding(
            "warn", "the thermal guard is not on the host yet", fix=_start_guard(None, limit)
        )
    if not unit.runs:
        summary = f"the thermal guard does not run: {UNIT} {unit.in_words}"
        return Finding("fail", summary, fix=_start_guard(unit, limit))
    return None


def _judge_running_guard(examined: Examined, text: str) -> Finding:
    state = json_fields.readable(record.parse, text)
    if state is None:
        return Finding("unknown", "the thermal guard's record cannot be read")
    boot = examined.snapshot[BOOT].value
    age_s = boot.uptime_s - state.uptime_s if boot and boot.uptime_s is not None else 0.0
    if age_s > LATE_S:
        return Finding(
            "fail",
            f"the thermal guard hangs: it has written nothing for {age_s:.0f} s",
            fix=fix_by_hand(f"sudo systemctl restart {UNIT}"),
        )
    return _judge_step(state, text)


def _judge_step(state: GuardState, text: str) -> Finding:
    if state.step == "none":
        suspended = f" ({state.suspended}: lost sensors lead to nothing)" if state.suspended else ""
        return Finding("ok", f"the thermal guard runs, and no card is too hot{suspended}")
    lines = [line.strip() for line in text.splitlines() if '"step"' in line or '"why"' in line]
    return Finding(
        "fail" if state.step in _FAILING_STEPS else "warn",
        f"the thermal guard is at {state.step} since {state.since}: {state.why}",
        tuple(Evidence(RIGOPS_STATE.name, line) for line in dict.fromkeys(lines[:2])),
        why="It goes back by itself once the cards are cool and their sensors answer.",
        data={"step": state.step, "since": state.since},
        fix=fix_by_hand(
            "look at the fans, at dust and at the air around the cards; "
            f"`journalctl -u {UNIT}` has every step"
        ),
    )


def _start_guard(unit: OwnedUnit | None, limit: ThermalLimit) -> Fix:
    degrees = {
        "gpu": limit.gpu_celsius,
        "memory": limit.memory_celsius,
        "margin": limit.margin_celsius,
    }
    declared = {name: value for name, value in degrees.items() if value is not None}
    return start_unit(UNIT, unit, NAME, {"thermal_limit": declared})
