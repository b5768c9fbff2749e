"""Sensors of the board: temperatures of CPUs and disks, and the voltage of the +12 V rail."""

from __future__ import annotations

import re
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.sensors import SECTION as SENSORS
from rigops.probe.sections.sensors import Reading, Sensors, Throttled

CPU_CELSIUS: Final = 100.0  # for CPUs that report no limit; Zen 4 is built to work at 95 °C
NVME_CELSIUS: Final = 80.0  # for disks that report no limit; others report 80 to 85 °C
THROTTLES: Final = 100  # since the boot; fewer are a passing peak
# Inputs without a sensor, and broken ones, have been seen at -273.1, 0, +117.5 and +65261.8 °C.
_BELIEVED_CELSIUS: Final = (1.0, 115.0)
_BELIEVED_LIMIT: Final = (40.0, 150.0)
_CPU = re.compile(r"coretemp|k10temp|zenpower", re.IGNORECASE)
_NVME = re.compile(r"nvme", re.IGNORECASE)
_CONTROL = re.compile(r"Tctl", re.IGNORECASE)
_DIE = re.compile(r"Tdie|Tccd", re.IGNORECASE)
_CARD = re.compile(r"nouveau|nvidia|amdgpu|radeon", re.IGNORECASE)
# The ATX specification allows 5 % either way.
LOWEST_VOLTS: Final = 11.4
HIGHEST_VOLTS: Final = 12.6
# Further off, it is an input that is not connected or not scaled, and no voltage.
_BELIEVED_VOLTS: Final = (8.0, 16.0)
_SHOWN: Final = 5
_RAIL = re.compile(r"(?<![0-9.\-])12 ?V(?![0-9])", re.IGNORECASE)
_SUPPLY_EVENT = re.compile(r"\b(?:Power Supply|Power Unit|Voltage)\b", re.IGNORECASE)
_ASSERTED = re.compile(r"\bAsserted\b")


@Check("tmp.host", needs_gpu=False, needs=(SENSORS,), fixes=("hands",))
def host(examined: Examined) -> Finding | list[Finding]:
    """CPUs and disks are within their temperatures.

    Compares hwmon, the BMC and `sensors` with the limit that each sensor reports; CPUs that report
    none with 100 °C, NVMe disks with 80 °C. Impossible values (inputs without a sensor, -273 or
    65261 °C) are left out, and so is Tctl where it reports its dies' temperature. Intel CPUs count
    how often they slowed down for heat since the boot: 100 times or more is a warning, fewer is
    information.
    """
    snapshot, sensors = examined.snapshot, examined.snapshot[SENSORS].value
    if sensors is None:
        reason = " in time" if snapshot[SENSORS].timed_out else ""
        return Finding("unknown", f"the host's sensors were not read{reason}")
    believed = _believed(sensors)
    found = [
        _hot(one, limit)
        for one in believed
        if (limit := _limit(one)) is not None and (one.value or 0.0) >= limit
    ]
    if slowed := _slowed(sensors.throttled):
        found.append(slowed)
    if found:
        return found
    if not snapshot[SENSORS].is_complete or sensors.unparsed:
        return Finding("unknown", "the sensors' answer could not be read to its end")
    judged = [one for one in believed if _limit(one) is not None]
    if not judged:
        return Finding("skipped", "no CPU or disk reports a temperature that can be judged")
    warmest = max(judged, key=lambda one: one.value or 0.0)
    return Finding(
        "ok",
        f"{len(judged)} sensors are within their limits; the warmest, {warmest.chip} "
        f"{warmest.label}, is at {warmest.value:g} °C",
        (Evidence(SENSORS.name, warmest.line),),
    )


def _believed(sensors: Sensors) -> list[Reading]:
    """Without what cannot be a temperature, and without Tctl where the dies report their own.

    Tctl steers the fans: it is 20 °C above the truth on some CPUs, and has been seen at 117 °C.
    """
    low, high = _BELIEVED_CELSIUS
    dies = {one.chip for one in sensors.readings if _DIE.search(one.label)}
    return [
        one
        for one in sensors.readings
        if one.kind == "celsius"
        and one.value is not None
        and low <= one.value <= high
        and not _CARD.search(one.chip)
        and not (_CONTROL.search(one.label) and one.chip in dies)
    ]


def _limit(reading: Reading) -> float | None:
    """The sensor's own, if it is one; `high` counts for disks only: boards write anything there."""
    is_nvme = _NVME.search(reading.chip) is not None
    own = [reading.critical, reading.high if is_nvme else None]
    low, high = _BELIEVED_LIMIT
    limits = [one for one in own if one is not None and low <= one <= high]
    if limits:
        return min(limits)
    if is_nvme:
        return NVME_CELSIUS
    return CPU_CELSIUS if _CPU.search(reading.chip) else None


def _hot(reading: Reading, limit: float) -> Finding:
    is_nvme = _NVME.search(reading.chip) is not None
    fix = (
        "give the disk a heat sink and air; a card that blows on it heats it"
        if is_nvme
        else "clean the cooler, renew its paste, check its fan or pump, and lower cpu_max_freq"
    )
    return Finding(
        "warn",
        f"{reading.value:g} °C; limit: {limit:g} °C",
        (Evidence(SENSORS.name, reading.line),),
        subject=f"{reading.chip} {reading.label}",
        why="It slows down, and what it feeds waits for it.",
        fix=fix_by_hand(fix),
    )


def _slowed(throttled: tuple[Throttled, ...]) -> Finding | None:
    """A package counts once for each of its CPUs: the most of one CPU is the truth."""
    times = max((max(one.core, one.package) for one in throttled), default=0)
    if not times:
        return None
    worst = sorted(throttled, key=lambda one: -max(one.core, one.package))[:_SHOWN]
    is_often = times >= THROTTLES
    return Finding(
        "warn" if is_often else "info",
        f"a CPU has slowed down for heat {times} times since the boot",
        tuple(Evidence(SENSORS.name, one.line) for one in worst),
        why="A few times are a passing peak; hundreds mean that the cooler is too small, or loose.",
        fix=fix_by_hand(
            "clean the CPU's cooler, renew its paste, check its fan or pump; or lower cpu_max_freq"
        )
        if is_often
        else None,
    )


@Check("pwr.sensor12v", needs_gpu=False, needs=(SENSORS,), fixes=("hands",))
def rail(examined: Examined) -> Finding | list[Finding]:
    """The +12 V rail is within its tolerance.

    Reads every sensor that is labelled +12 V, from hwmon and from the BMC (root). 11.4 to 12.6 V is
    ok, the 5 % of the ATX specification; less is a failure: V100 rigs have lost cards from the bus
    at 11.2 V. A value that cannot be this rail's (below 8 or above 16 V) is an input that is not
    connected or not scaled, and is not judged. Most consumer boards have no sensor that Linux can
    name: skipped.
    """
    snapshot, sensors = examined.snapshot, examined.snapshot[SENSORS].value
    if sensors is None:
        reason = " in time" if snapshot[SENSORS].timed_out else ""
        return Finding("unknown", f"the board's sensors were not read{reason}")
    rails = [one for one in sensors.readings if one.kind == "volts" and _RAIL.search(one.label)]
    low, high = _BELIEVED_VOLTS
    believed = [one for one in rails if one.value is not None and low <= one.value <= high]
    wrong = [
        _off_voltage(one)
        for one in believed
        if one.value and not LOWEST_VOLTS <= round(one.value, 2) <= HIGHEST_VOLTS
    ]
    if wrong:
        return wrong
    if not snapshot[SENSORS].is_complete:
        return Finding("unknown", "the sensors' answer is incomplete")
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


def _off_voltage(reading: Reading) -> Finding:
    volts = reading.value or 0.0
    is_low = volts < LOWEST_VOLTS
    return Finding(
        "fail" if is_low else "warn",
        f"+12 V is {volts:.2f} V; {LOWEST_VOLTS} to {HIGHEST_VOLTS} V is ok",
        (Evidence(SENSORS.name, reading.line),),
        subject=f"{reading.chip} {reading.label}",
        why="Under a voltage that is too low, cards fall off the bus when they all start to work."
        if is_low
        else "Too high a voltage wears out what it feeds; more often the sensor is wrong.",
        fix=fix_by_hand(
            "measure with a meter at the card's plug under load; then clean and tighten the "
            "terminals, use thicker or more cables, or add a supply"
        ),
    )
