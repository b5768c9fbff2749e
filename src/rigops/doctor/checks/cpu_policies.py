"""Whether the CPU has the declared governor and highest frequency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.cpu_tuning import decide
from rigops.concerns.cpu_tuning.decide import Declared
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.cpufreq import SECTION as CPUFREQ

if TYPE_CHECKING:
    from rigops.concerns.cpu_tuning.decide import Setting
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.cpufreq import Policy

_SHOWN: Final = 3  # policies of a setting, as evidence


@Check(
    "cpu.gov",
    needs_gpu=False,
    needs=(CPUFREQ,),
    fixes=("apply", "hands"),
    keys=frozenset({"cpu_governor", "cpu_max_freq"}),
)
def declared_policies(examined: Examined) -> Finding:
    """The CPU has the declared governor and highest frequency.

    Compares `cpu_governor` and `cpu_max_freq` with each policy in sysfs; with acpi-cpufreq the
    highest P-state up to the limit has to be set. A difference is a warning. It is skipped without
    a declaration, and where the kernel scales no frequency, as in most virtual machines.
    """
    declared = Declared(examined.spec.cpu_governor, examined.spec.cpu_max_freq)
    if declared == Declared():
        return Finding("skipped", "neither cpu_governor nor cpu_max_freq is declared")
    answer = examined.snapshot[CPUFREQ]
    if answer.value is None:
        return Finding("unknown", "the CPU policies were not collected")
    policies = decide.in_use(answer.value)
    if not policies and not answer.is_exhaustive:
        return Finding("unknown", "the CPU policies could not be read")
    if not policies:
        return Finding("skipped", "the kernel scales no CPU frequency here")
    return _judge(examined, declared, policies, is_whole=answer.is_complete)


def _judge(
    examined: Examined, declared: Declared, policies: tuple[Policy, ...], *, is_whole: bool
) -> Finding:
    impossible = next(decide.refusals(Declared(khz=declared.khz), policies, ()), None)
    if impossible:
        what, _, fix = impossible.partition(". fix: ")
        return Finding("warn", what, fix=Fix(kind="hands", text=fix))
    different = decide.settings(declared, policies, {})
    if not different and not is_whole:
        return Finding("unknown", "only some of the CPU policies were collected")
    if not different:
        held = {decide.shown(one.max_khz) for one in policies}
        governors = {str(one.governor) for one in policies}
        values = f"{', '.join(sorted(governors))}, up to {', '.join(sorted(held))}"
        return Finding("ok", f"{len(policies)} CPU policies: {values}")
    lines = {one.number: one.line for one in policies}
    shown = [lines[number] for one in different for number in one.policies[:_SHOWN]]
    return Finding(
        "warn",
        "; ".join(_difference(one) for one in different),
        tuple(Evidence(CPUFREQ.name, line) for line in dict.fromkeys(shown)),
        why="The kernel forgets both at a reboot, and power managers such as tuned set their own.",
        fix=_fix(examined),
    )


def _difference(setting: Setting) -> str:
    return f"{setting.subject} is {decide.shown(setting.before)}, not {decide.shown(setting.after)}"


def _fix(examined: Examined) -> Fix:
    spec = examined.spec
    khz = spec.cpu_max_freq
    values = {
        "cpu_governor": spec.cpu_governor,
        "cpu_max_freq": f"{khz} kHz" if khz else None,
    }
    return Fix(
        kind="apply",
        concern="cpu_tuning",
        declare={key: value for key, value in values.items() if value},
        text="`rigops apply` sets every policy now and at every boot",
    )
