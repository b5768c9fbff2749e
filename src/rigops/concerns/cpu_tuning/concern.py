"""cpu_max_freq, cpu_governor: how fast the processors may run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.cpu_tuning import NAME
from rigops.inventory.spec.machine import cpu_max_freq
from rigops.inventory.spec.scalars import Key, word_key
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec


_GOVERNORS: Final = (
    "performance", "powersave", "schedutil", "ondemand", "conservative", "userspace",
)  # fmt: skip


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.cpu_tuning.facts import CpuTuning
    from rigops.facts.sections import Boot, CpuFreq, Units

    is_declared = spec.cpu_max_freq is not None or spec.cpu_governor is not None
    return (CpuFreq, CpuTuning, Boot, Units) if is_declared else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.cpu_tuning.operations import cpu_tuning

    cpu_tuning(governor=spec.cpu_governor, khz=spec.cpu_max_freq)


def _self_check(spec: RigSpec) -> Sequence[str]:
    from rigops.hostside.packing import installed_at

    if spec.cpu_governor is None and spec.cpu_max_freq is None:
        return ()
    return (installed_at(NAME), "check", spec.cpu_governor or "-", str(spec.cpu_max_freq or "-"))


def _records() -> tuple[HostRecord, ...]:
    return (
        HostRecord(
            f"{STATE}/cpu_tuning.json",
            "the governor and limit that the CPU had before come back with the next reboot only",
            of_schema("rigops.cpu_tuning/1"),
            "reboot the host",
        ),
    )


CPU_TUNING: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "cpu_max_freq",
            '"3.2GHz"',
            cpu_max_freq,
            ("cpu_max_frequency", "cpu_frequency", "cpu_freq"),
        ),
        word_key("cpu_governor", *_GOVERNORS),
    ),
    deploy=_deploy,
    facts=_facts,
    records=_records,
    self_check=_self_check,
)
