"""The voltage of the +12 V rail, where a board has a sensor for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.sensors import SECTION as SENSORS

if TYPE_CHECKING:
    from rigops.probe.sections.sensors import Reading, Sensors


# The ATX specification allows 5 % either way.
LOWEST_VOLTS: Final = 11.4
HIGHEST_VOLTS: Final = 12.6
# Further off, it is an input that is not connected or not scaled, and no voltage.
_BELIEVED_VOLTS: Final = (8.0, 16.0)
_SHOWN: Final = 5

_RAIL = re.compile(r"(?<![0-9.\-])12 ?V(?![0-9])", re.IGNORECASE)
_SUPPLY_EVENT = re.compile(r"\b(?:Power Supply|Power Unit|Voltage)\b", re.IGNORECASE)
_ASSERTED = re.compile(r"\bAsserted\b")


@Check("pwr.sensor12v", needs_gpu=False, needs=(SENSORS,), fixes=("hands",))
def rail(examined: Examined) -> Finding | list[Finding]:
    """The +12 V rail is within its tolerance.

    Reads every sensor that is labelled +12 V, from hwmon and from the BMC (root). 11.4 to 12.6 V is
    well, which is the 5 % of the ATX specification; less is a failure: V100 rigs have lost cards
    from the bus at 11.2 V. What cannot be a voltage of this rail (below 8 or above 16 V) is an
    input that is not connected or not scaled, and is not judged. Most consumer boards have no
    sensor that Linux can name: skipped.
    """
    snapshot, sensors = examined.snapshot, examined.snapshot[SENSORS].value
    if sensors is None:
        reason = " in time" if snapshot[SENSORS].timed_out else ""
        return Finding("unknown", f"the board's sensors were not read{reason}")
    rails = _rails(sensors)
    low, high = _BELIEVED_VOLTS
    believed = [one for one in rails if one.value is not None and low <= one.value <= high]
    wrong = [_off(one) for one in believed if one.value and not _is_well(one.value)]
    if wrong:
        return wrong
    if not snapshot[SENSORS].is_complete:
        return Finding("unknown", "the sensors' answer is cut off")
    if not believed:
        summary = (
            "no +12 V sensor reports a plausible voltage"
            if rails
            else ("this board has no +12 V sensor that Linux can read")
        )
        return Finding("skipped", summary)
    events = [one for one in sensors.events if _SUPPLY_EVENT.search(one) and _ASSERTED.search(one)]
    volts = ", ".join(f"{one.value:.2f} V" for one in believed)
    if events:
        return Finding(
            "info",
            f"+12 V is within its limits now ({volts}); the BMC's log has power events",
            tuple(Evidence(SENSORS.name, line) for line in events[-_SHOWN:]),
            why="It is a log of the past: look at its dates.",
        )
    cited = tuple(Evidence(SENSORS.name, one.line) for one in believed[:_SHOWN])
    return Finding("ok", f"+12 V is {volts}", cited)


def _rails(sensors: Sensors) -> list[Reading]:
    return [one for one in sensors.readings if one.kind == "volts" and _RAIL.search(one.label)]


def _is_well(volts: float) -> bool:
    return LOWEST_VOLTS <= round(volts, 2) <= HIGHEST_VOLTS


def _off(reading: Reading) -> Finding:
    volts = reading.value or 0.0
    is_low = volts < LOWEST_VOLTS
    return Finding(
        "fail" if is_low else "warn",
        f"+12 V is {volts:.2f} V; {LOWEST_VOLTS} to {HIGHEST_VOLTS} V is well",
        (Evidence(SENSORS.name, reading.line),),
        subject=f"{reading.chip} {reading.label}",
        why="Under a voltage that is too low, cards fall off the bus when they all start to work."
        if is_low
        else "Too high a voltage wears out what it feeds; more often the sensor is wrong.",
        fix=Fix(
            kind="hands",
            text="measure with a meter at the card's plug under load; then clean and tighten the "
            "terminals, use thicker or more cables, or add a supply",
        ),
    )
