"""Notes on a declaration, and on programs that would undo it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.concerns.cpu_tuning.state import (
    ACPI,
    CHECK,
    NOTHING_SCALES,
    RECORD,
    WITHOUT_MODULES,
    Declared,
    frequency,
    held_khz,
    judge_policies,
    was_set,
)
from rigops.concerns.state import AS_DECLARED, LEFT_OVER, NOT_HERE, UNKNOWN, State
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.cpufreq import SECTION as CPUFREQ
from rigops.probe.sections.cpufreq import CpuFreq, Policy
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.units import Units

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

# The probe asks for these units by name.
_DAEMONS: Final[Mapping[str, str]] = {
    "power-profiles-daemon.service": "sets governor and energy preference with the power profile",
    "tuned.service": "sets governor and limits with its profile",
    "tlp.service": "sets governor and limits at boot, after a resume and with the power supply",
    "auto-cpufreq.service": "sets governor and limits with the load",
}
_AT_BOOT: Final[Mapping[str, str]] = {
    "cpupower.service": "sets governor and limits when it is started",
    "cpufrequtils.service": "sets governor and limits when it is started",
}


def in_use(found: CpuFreq) -> tuple[Policy, ...]:
    """Those with a CPU online."""
    return tuple(one for one in found.policies if one.governor and one.driver)


def nothing_scales(virtual_machine: str, keys: Collection[str]) -> str:
    """`virtual_machine`: its kind, if it is one."""
    what = f"{' and '.join(keys)}: skipped, {NOTHING_SCALES}"
    if virtual_machine:
        return f"{what} (virtual machine: {virtual_machine}). fix: declare it for the real machine"
    return (
        f"{what}. fix: switch P-states on in the BIOS (SpeedStep, Speed Shift, Cool'n'Quiet, CPPC),"
        " and take a *_pstate=disable off the kernel's command line, or drop the declaration"
    )


def judged(
    declared: Declared, found: CpuFreq, records: Mapping[str, str], boot_id: str | None
) -> list[State]:
    """`records`: those of rigops on the host."""
    was = was_set(records.get(RECORD, ""), boot_id)
    return judge_policies(declared, in_use(found), was, found.loadable)


def headlines(pending: Iterable[State], *, is_declared: bool = True) -> Iterator[str]:
    """Each change with its values, whichever policies have it.

    `is_declared`: whether anything of the concern is; else the plan says of all that it is not.
    """
    alike = dict.fromkeys(
        (one.name.endswith("governor"), one.now, one.wanted, one.status) for one in pending
    )
    for is_governor, now, wanted, status in alike:
        name = "CPU governor" if is_governor else "highest CPU frequency"
        gone = " (no longer declared here)" if is_declared and status == LEFT_OVER else ""
        yield f"{name} {now} -> {wanted}{gone}"


def states(declared: Declared, snapshot: HostSnapshot) -> list[State]:
    answer = snapshot[CPUFREQ]
    boot_id = snapshot[BOOT].or_empty.boot_id
    found = judged(declared, answer.or_empty, snapshot[RIGOPS_STATE].or_empty.records, boot_id)
    if declared == Declared() or any(one.status != AS_DECLARED for one in found):
        return found
    if not answer.is_complete or (not in_use(answer.or_empty) and answer.unparsed):
        return [State(CHECK, "host", "CPU policies", "", "", UNKNOWN, "not read to their end")]
    return found or [State(CHECK, "host", "CPU policies", "", "", NOT_HERE, NOTHING_SCALES)]


def notices(declared: Declared, found: CpuFreq) -> Iterator[str]:
    """Notes on the values that will hold."""
    policies = in_use(found)
    khz = declared.khz
    if khz:
        kinds = {(one.driver, one.steps_khz, one.most_khz): one for one in reversed(policies)}
        for policy in reversed(kinds.values()):
            held, steps = held_khz(policy, khz), policy.steps_khz
            if held is None or not steps:
                continue
            if held != khz:
                listed = ", ".join(frequency(step) for step in sorted(steps))
                yield (
                    f'cpu_max_freq = "{frequency(khz)}": {frequency(held)} will hold, since '
                    f"{policy.driver} has {listed}"
                )
            if policy.driver == ACPI and found.boost:
                yield _boost(held, steps)
    fixed = [one for one in policies if one.driver not in WITHOUT_MODULES]
    if declared.governor == "powersave" and fixed:
        low = [one.min_khz or one.least_khz for one in fixed]
        most = max((one for one in low if one), default=None)
        at = f" ({frequency(most)})" if most else ""
        yield (
            f'cpu_governor = "powersave": with {fixed[0].driver} the CPU stays at its lowest '
            f"frequency{at}; schedutil and ondemand follow the load"
        )


def _boost(held: int, steps: Sequence[int]) -> str:
    if held < max(steps):
        return f"boost ends: at {frequency(held)} the CPU no longer goes above it"
    lower = [step for step in steps if step < held]
    fix = f": a limit of {frequency(max(lower))} would end that" if lower else ""
    return f"boost stays: {frequency(held)} is the highest P-state, above which it still goes{fix}"


def rivals(units: Units) -> Iterator[str]:
    """Programs that a person should turn off before the declaration can hold."""
    for name, does in (*_DAEMONS.items(), *_AT_BOOT.items()):
        unit = units.unit(name)
        if unit is None or not unit.exists:
            continue
        is_on = unit.active in {"active", "activating"}
        if is_on or (name in _AT_BOOT and unit.enabled in {"enabled", "generated"}):
            yield (
                f"{name} {'runs' if name in _DAEMONS else 'is enabled'} and {does}: "
                f"sudo systemctl disable --now --no-reload {name}, or it undoes this"
            )
