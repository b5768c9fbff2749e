"""cpu_max_freq, cpu_governor: how fast the processors may run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, States, of_schema
from rigops.concerns.cpu_tuning import NAME
from rigops.concerns.cpu_tuning.state import CHECK, RECORD, SCHEMA, Declared
from rigops.concerns.state import State
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.machine import cpu_max_freq
from rigops.inventory.spec.scalars import Key, word_key
from rigops.probe.section import Section

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.facts.sections import SectionFact
    from rigops.probe.snapshot import HostSnapshot


_EXPLANATION: Final = """The CPU has the declared governor and highest frequency.

Compares `cpu_governor` and `cpu_max_freq` with each policy in sysfs, as plan does; with
acpi-cpufreq the highest P-state up to the limit has to be set. A difference is a warning, and a
value that the driver does not take fails. It is skipped without a declaration, and where the kernel
scales no frequency, as in most virtual machines.
"""
_GOVERNORS: Final = (
    "performance", "powersave", "schedutil", "ondemand", "conservative", "userspace",
)  # fmt: skip


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.facts.sections import Boot, CpuFreq, Units

    is_declared = Declared(spec.cpu_governor, spec.cpu_max_freq) != Declared()
    return (CpuFreq, Boot, Units) if is_declared else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.cpu_tuning.operations import cpu_tuning

    cpu_tuning(governor=spec.cpu_governor, khz=spec.cpu_max_freq)


def _needs() -> Sequence[Section[Any]]:
    from rigops.probe.sections import boot, cpufreq, rigops_state

    return (cpufreq.SECTION, rigops_state.SECTION, boot.SECTION)


def _states(spec: RigSpec, snapshot: HostSnapshot, _: Catalog) -> Sequence[State]:
    from rigops.concerns.cpu_tuning import decide

    return decide.states(Declared(spec.cpu_governor, spec.cpu_max_freq), snapshot)


def _self_check(spec: RigSpec) -> Sequence[str]:
    declared = Declared(spec.cpu_governor, spec.cpu_max_freq)
    return () if declared == Declared() else (installed_at(NAME), "check", *declared.words)


CPU_TUNING: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "cpu_max_freq",
            '"3.2GHz"',
            cpu_max_freq,
            ("cpu_max_frequency", "cpu_frequency", "cpu_freq"),
        ),
        word_key("cpu_governor", *_GOVERNORS, also_written=(NAME,)),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            RECORD,
            "the governor and limit that the CPU had before come back with the next reboot only",
            of_schema(SCHEMA),
            "reboot the host",
        ),
    ),
    states=States(needs=_needs, judge=_states, checks={CHECK: _EXPLANATION}),
    self_check=_self_check,
)
