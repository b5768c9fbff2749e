"""Every concern, in the order in which they are brought about. A new one is one line here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from rigops.concerns.acs.concern import ACS
from rigops.concerns.base.concern import BASE
from rigops.concerns.borg.concern import BORG
from rigops.concerns.concern import Concern, SelfChecks
from rigops.concerns.container_toolkit.concern import CONTAINER_TOOLKIT
from rigops.concerns.cpu_tuning.concern import CPU_TUNING
from rigops.concerns.driver_modules.concern import DRIVER_MODULES
from rigops.concerns.gpu_tuning.concern import GPU_TUNING
from rigops.concerns.kernel_args.concern import KERNEL_ARGS
from rigops.concerns.monitoring.concern import MONITORING
from rigops.concerns.nvidia_driver.concern import NVIDIA_DRIVER
from rigops.concerns.snapshots.concern import SNAPSHOTS
from rigops.concerns.thermal_guard.concern import THERMAL_GUARD
from rigops.errors import UsageError
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.read import GENERAL, examine
from rigops.inventory.spec.scalars import Key
from rigops.probe.section import Section

CONCERNS: list[Concern] = [
    BASE,
    NVIDIA_DRIVER,
    DRIVER_MODULES,
    CONTAINER_TOOLKIT,
    KERNEL_ARGS,
    ACS,
    GPU_TUNING,
    CPU_TUNING,
    THERMAL_GUARD,
    SNAPSHOTS,
    BORG,
    MONITORING,
]


def keys() -> dict[str, Key[Any]]:
    """Every key of an inventory, by its name."""
    of_concerns = chain.from_iterable(concern.keys for concern in CONCERNS)
    return {key.name: key for key in (*of_concerns, *GENERAL)}


def concern(name: str) -> Concern:
    return next(one for one in CONCERNS if one.name == name)


def concern_of(key: str) -> str | None:
    """The concern that acts on it; None: it guides others."""
    return next((one.name for one in CONCERNS if key in {k.name for k in one.keys}), None)


def in_this_version() -> tuple[Concern, ...]:
    return tuple(one for one in CONCERNS if one.is_in_this_version)


def names_in_this_version() -> frozenset[str]:
    return frozenset(one.name for one in in_this_version())


def every_section() -> tuple[Section[Any], ...]:
    """The sections that doctor asks a host for: the probe's, and those of concerns alone."""
    from rigops.probe.registry import SECTIONS  # noqa: PLC0415 - heavy

    states = (one.states for one in in_this_version() if one.states)
    of_concerns = (section for one in states for section in one.needs())
    return tuple({section.name: section for section in (*SECTIONS, *of_concerns)}.values())


def self_checks(spec: RigSpec) -> SelfChecks:
    asked = {one.name: tuple(one.self_check(spec)) for one in in_this_version()}
    return SelfChecks({name: words for name, words in asked.items() if words})


def read(data: Mapping[str, object]) -> RigSpec:
    """For a deploy, which has a host's data and no file to point at."""
    spec, problems = examine(data, keys())
    if problems:
        raise UsageError(problems)
    return spec
