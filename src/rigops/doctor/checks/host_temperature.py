"""How hot everything but the cards is: CPUs and disks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.sensors import SECTION as SENSORS

if TYPE_CHECKING:
    from rigops.probe.sections.sensors import Reading, Sensors, Throttled


CPU_CELSIUS: Final = 100.0  # for CPUs that tell no limit; Zen 4 is built to work at 95 °C
NVME_CELSIUS: Final = 80.0  # for disks that tell no limit; those that do tell 80 to 85 °C
THROTTLES: Final = 100  # since the boot; fewer are a passing peak
# Inputs without a sensor, and broken ones, have been seen at -273.1, 0, +117.5 and +65261.8 °C.
_BELIEVED_CELSIUS: Final = (1.0, 115.0)
_BELIEVED_LIMIT: Final = (40.0, 150.0)
_SHOWN: Final = 5

_CPU = re.compile(r"coretemp|k10temp|zenpower", re.IGNORECASE)
_NVME = re.compile(r"nvme", re.IGNORECASE)
_CONTROL = re.compile(r"Tctl", re.IGNORECASE)
_DIE = re.compile(r"Tdie|Tccd", re.IGNORECASE)
_CARD = re.compile(r"nouveau|nvidia|amdgpu|radeon", re.IGNORECASE)


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
    found = [_hot(one, limit) for one in believed for limit in _exceeded(one)]
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
    """Without what cannot be a temperature, and without Tctl where the dies tell their own.

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


def _exceeded(reading: Reading) -> list[float]:
    limit = _limit(reading)
    return [limit] if limit is not None and (reading.value or 0.0) >= limit else []


def _limit(reading: Reading) -> float | None:
    """The sensor's own, if it is one; `high` counts for disks only: boards write anything there."""
    is_nvme = _NVME.search(reading.chip) is not None
    own = [reading.critical, reading.high if is_nvme else None]
    low, high = _BELIEVED_LIMIT
    told = [one for one in own if one is not None and low <= one <= high]
    if told:
        return min(told)
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
        fix=Fix(kind="hands", text=fix),
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
        fix=Fix(
            kind="hands",
            text="clean the CPU's cooler, renew its paste, check its fan or pump; or lower "
            "cpu_max_freq",
        )
        if is_often
        else None,
    )
