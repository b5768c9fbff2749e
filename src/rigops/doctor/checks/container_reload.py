"""Containers that lose their cards, or have lost them, by a reload of systemd."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views.container_engines import container_engines
from rigops.doctor.views.driver_packages import not_read
from rigops.probe.gpu_units import Device, GpuCgroups, GpuUnit
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.gpu_cgroups import SECTION as GPU_CGROUPS
from rigops.probe.sections.packages import SECTION as PACKAGES

_ID: Final = re.compile("([0-9a-f]{12})[0-9a-f]{52}")
_LATER_FROM: Final = 253  # systemd applies its list of devices some time after the reload
_WHY: Final = (
    "Its runtime gave it the cards without telling systemd. A reload (daemon-reload, enable, "
    "disable and many packages) applies systemd's own list of devices. What runs on the cards goes "
    "on; nvidia-smi, new programs and restarts fail in the container "
    '("Failed to initialize NVML: Unknown Error").'
)


@Check("container.cut", needs=(GPU_CGROUPS, CONTAINER, PACKAGES), fixes=("hands",), cause_rank=900)
def cut(examined: Examined) -> Finding | list[Finding]:
    """Containers can open the cards that they were given.

    Compares, for each running container that sees a card, the devices that its runtime allows with
    those that systemd allows now. A device that systemd denies is a failure: a reload of systemd
    has taken it, and programs that start in the container find no card.
    """
    return _each(examined, _cut, "can open their cards")


@Check("container.reload", needs=(GPU_CGROUPS, CONTAINER, PACKAGES), fixes=("hands",))
def reload(examined: Examined) -> Finding | list[Finding]:
    """Containers keep their cards when systemd reloads.

    Compares, for each running container that sees a card, the devices that its runtime allows with
    those that systemd knows of. A device that systemd does not know of is a warning: it goes with
    the next reload. A container that has lost its cards already is left to `container.cut`.
    """
    return _each(examined, _reload, "keep their cards when systemd reloads")


def _each(
    examined: Examined,
    judge: Callable[[Examined, GpuCgroups, GpuUnit], Finding | None],
    well: str,
) -> Finding | list[Finding]:
    answer = examined.snapshot[GPU_CGROUPS]
    found = answer.value
    if found is None:
        return _not_collected(examined)
    judged = [one for unit in found.units if (one := judge(examined, found, unit))]
    if judged:
        return judged
    if not answer.is_exhaustive:
        return Finding("unknown", "not all containers with cards were read")
    if not found.units:
        return Finding("skipped", "no container with a card runs")
    count = len(found.units)
    return Finding("ok", f"{count} container{'s' if count > 1 else ''} with cards {well}")


def _not_collected(examined: Examined) -> Finding:
    """A host without an engine has no container to ask about."""
    snapshot = examined.snapshot
    engines = snapshot[CONTAINER].or_empty.engines
    if engines is not None and not engines and snapshot[CONTAINER].is_exhaustive:
        return Finding("skipped", "there is no container runtime")
    return Finding("unknown", not_read(snapshot[GPU_CGROUPS], "containers with cards"))


def _cut(examined: Examined, found: GpuCgroups, unit: GpuUnit) -> Finding | None:
    if not unit.cut:
        return None
    return Finding(
        "fail",
        _loss(found, unit),
        _evidence(unit),
        subject=_subject(unit),
        why=_WHY,
        fix=_fix(examined, unit, unit.cut, "without a restart"),
    )


def _loss(found: GpuCgroups, unit: GpuUnit) -> str:
    at, started = found.generator_at, unit.started
    if at is None or started is None or at < started:
        return "cannot open its cards: systemd's list of its devices lacks them"
    moment = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"has lost its cards: systemd reloaded at {moment}"


def _reload(examined: Examined, found: GpuCgroups, unit: GpuUnit) -> Finding | None:
    if unit.cut:
        return None
    if not unit.is_readable and not unit.told:
        return Finding(
            "warn",
            f"systemd knows of none of its cards: a reload takes them ({found.unread})",
            _evidence(unit),
            subject=_subject(unit),
            why=_WHY,
            fix=fix_by_hand(container_engines(examined.snapshot).recreate(unit.engine)),
        )
    if not unit.is_readable:
        summary = f"the devices that its runtime allows were not read ({found.unread})"
        return Finding("unknown", summary, _evidence(unit), subject=_subject(unit))
    if not unit.lacks:
        return None
    return Finding(
        "warn",
        f"its cards go {_when(found, unit)}",
        _evidence(unit),
        subject=_subject(unit),
        why=_WHY,
        fix=_fix(examined, unit, unit.lacks, "until it restarts"),
    )


def _when(found: GpuCgroups, unit: GpuUnit) -> str:
    at, started = found.generator_at, unit.started
    has_reloaded = at is not None and started is not None and at > started
    if has_reloaded and found.systemd is not None and found.systemd >= _LATER_FROM:
        return "when the next service starts or stops: systemd has reloaded since it started"
    return "at the next reload of systemd"


def _fix(examined: Examined, unit: GpuUnit, devices: Iterable[Device], how_long: str) -> Fix:
    entries = " ".join(
        f"'DeviceAllow=/dev/char/{one.major}:{one.minor} {one.access}'" for one in devices
    )
    recreate = container_engines(examined.snapshot).recreate(unit.engine)
    if not unit.unit:
        return fix_by_hand(recreate)
    return fix_by_hand(
        f"now, {how_long}: `sudo systemctl set-property --runtime {unit.unit} {entries}`; "
        f"for good: {recreate}"
    )


def _subject(unit: GpuUnit) -> str:
    """Its unit or its control group, with the id of a container as short as Docker shows it."""
    short = _ID.sub(r"\1", unit.unit or unit.cgroup).removesuffix(".scope")
    return f"{short} ({unit.name})" if unit.name else short


def _evidence(unit: GpuUnit) -> tuple[Evidence, ...]:
    return (Evidence(GPU_CGROUPS.name, unit.line),)
