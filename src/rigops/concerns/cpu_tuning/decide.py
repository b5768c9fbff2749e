"""What each CPU policy gets, and which declarations its driver cannot hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.concerns.cpu_tuning.facts import Before
    from rigops.probe.sections.cpufreq import CpuFreq, Policy
    from rigops.probe.sections.units import Units

Key = TypeVar("Key", bound=Hashable)

# These drivers choose frequencies by themselves. With any other the kernel loads a governor's
# module when its name is written.
_WITHOUT_MODULES: Final = frozenset({"intel_pstate", "amd-pstate-epp"})
_ACPI: Final = "acpi-cpufreq"
_KHZ_OF_GHZ: Final = 1_000_000
_KHZ_OF_MHZ: Final = 1_000

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


@dataclass(frozen=True)
class Declared:
    governor: str | None = None
    khz: int | None = None


@dataclass(frozen=True)
class Setting:
    """Of one or more policies with the same values. None: the kernel does not report it."""

    kind: Literal["governor", "limit"]
    policies: tuple[int, ...]
    before: str | int | None
    after: str | int

    @property
    def subject(self) -> str:
        what = "governor" if self.kind == "governor" else "highest frequency"
        return f"CPU {named(self.policies)} {what}"


def frequency(khz: int) -> str:
    if khz < _KHZ_OF_GHZ:
        return f"{khz / _KHZ_OF_MHZ:g} MHz"
    return f"{khz / _KHZ_OF_GHZ:.7g} GHz"


def shown(value: str | int | None) -> str:
    if value is None:
        return "unknown"
    return frequency(value) if isinstance(value, int) else value


def named(numbers: Sequence[int]) -> str:
    """Policy 4, or policies 0-3, 8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"{'policies' if len(numbers) > 1 else 'policy'} {', '.join(ranges)}"


def in_use(found: CpuFreq) -> tuple[Policy, ...]:
    """Those with a CPU online."""
    return tuple(one for one in found.policies if one.governor and one.driver)


def nothing_scales(virtual_machine: str, keys: Collection[str]) -> str:
    """`virtual_machine`: its kind, if it is one."""
    what = f"{' and '.join(keys)}: skipped, the kernel scales no CPU frequency here"
    if virtual_machine:
        return f"{what} (virtual machine: {virtual_machine}). fix: declare it for the real machine"
    return (
        f"{what}. fix: switch P-states on in the BIOS (SpeedStep, Speed Shift, Cool'n'Quiet, CPPC),"
        " and take a *_pstate=disable off the kernel's command line, or drop the declaration"
    )


def refusals(
    declared: Declared, policies: Sequence[Policy], loadable: Collection[str]
) -> Iterator[str]:
    if declared.governor:
        yield from _refused_governor(declared.governor, policies, loadable)
    if declared.khz:
        yield from _refused_limit(declared.khz, policies)


def _refused_governor(
    governor: str, policies: Sequence[Policy], loadable: Collection[str]
) -> Iterator[str]:
    for (driver, listed), numbers in _alike(policies, lambda one: (one.driver, one.governors)):
        # Without a list the kernel itself answers.
        if not listed or governor in listed:
            continue
        others = frozenset() if driver in _WITHOUT_MODULES else frozenset(loadable)
        if governor in others:
            continue
        accepted = ", ".join(sorted({*listed, *others}))
        yield (
            f'cpu_governor = "{governor}": CPU {named(numbers)} ({driver}): it is not among '
            f"{accepted}. fix: declare one of those{_other_mode(str(driver))}"
        )


def _other_mode(driver: str) -> str:
    match driver:
        case "intel_pstate":
            return ', or kernel_args = ["intel_pstate=passive"] for the others'
        case "amd-pstate-epp":
            return ', or kernel_args = ["amd_pstate=guided"] for the others'
    return ""


def _refused_limit(khz: int, policies: Sequence[Policy]) -> Iterator[str]:
    lows = [(one, lowest(one)) for one in policies]
    highs = [one.most_khz for one in policies]
    known = [high for high in highs if high is not None]
    below = [(one, low) for one, low in lows if low is not None and khz < low]
    if below:
        numbers = named([one.number for one, _ in below])
        most = f" to {frequency(max(known))}" if known else " or more"
        yield (
            f'cpu_max_freq = "{frequency(khz)}": CPU {numbers} ({below[0][0].driver}) accepts '
            f"{frequency(max(low for _, low in below))}{most}. fix: declare one of those"
        )
    elif len(known) == len(highs) and known and khz > max(known):
        least = [low for _, low in lows if low is not None]
        range_text = f"{frequency(max(least))} to " if least else "up to "
        boost = (
            ", which counts without boost" if any(one.driver == _ACPI for one in policies) else ""
        )
        yield (
            f'cpu_max_freq = "{frequency(khz)}": {policies[0].driver} accepts {range_text}'
            f"{frequency(max(known))}{boost}. fix: declare one of those, or drop it: "
            "there is nothing to limit"
        )


def lowest(policy: Policy) -> int | None:
    return min(policy.steps_khz) if policy.steps_khz else policy.least_khz


def held_khz(policy: Policy, khz: int) -> int | None:
    """The limit that will hold; None: this policy is slower anyway. As the program has it."""
    if policy.most_khz is not None and khz > policy.most_khz:
        return None
    if not policy.steps_khz:
        return khz
    return max((step for step in policy.steps_khz if step <= khz), default=None)


def settings(
    declared: Declared, policies: Sequence[Policy], was: Mapping[int, Before]
) -> tuple[Setting, ...]:
    """What `set` will change, governors first, and policies with the same values together."""
    found: dict[tuple[Literal["governor", "limit"], str | int | None, str | int], list[int]] = {}
    for policy in policies:
        before = was.get(policy.number)
        governor = declared.governor or (before.governor if before else None)
        if governor and policy.governor != governor:
            found.setdefault(("governor", policy.governor, governor), []).append(policy.number)
    for policy in policies:
        before = was.get(policy.number)
        held = held_khz(policy, declared.khz) if declared.khz else None
        if held is None and before and before.khz is not None:
            held = min(before.khz, policy.most_khz or before.khz)
        if held is not None and policy.max_khz != held:
            found.setdefault(("limit", policy.max_khz, held), []).append(policy.number)
    return tuple(
        Setting(kind, tuple(numbers), old, new) for (kind, old, new), numbers in found.items()
    )


def notices(declared: Declared, found: CpuFreq) -> Iterator[str]:
    """What a person should know of what will hold."""
    policies = in_use(found)
    khz = declared.khz
    if khz:
        alike = _alike(policies, lambda one: (one.driver, one.steps_khz, one.most_khz))
        for (_, steps, _), numbers in alike:
            policy = next(one for one in policies if one.number == numbers[0])
            held = held_khz(policy, khz)
            if held is None or not steps:
                continue
            if held != khz:
                listed = ", ".join(frequency(step) for step in sorted(steps))
                yield (
                    f'cpu_max_freq = "{frequency(khz)}": {frequency(held)} will hold, since '
                    f"{policy.driver} has {listed}"
                )
            if policy.driver == _ACPI and found.boost:
                yield _boost(held, steps)
    fixed = [one for one in policies if one.driver not in _WITHOUT_MODULES]
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


def _alike(
    policies: Sequence[Policy], by: Callable[[Policy], Key]
) -> Iterator[tuple[Key, list[int]]]:
    """The numbers of those that have the same."""
    found: dict[Key, list[int]] = {}
    for one in policies:
        found.setdefault(by(one), []).append(one.number)
    yield from found.items()


def rivals(units: Units) -> Iterator[str]:
    """What a person should turn off before the declaration can hold."""
    for name, does in (*_DAEMONS.items(), *_AT_BOOT.items()):
        unit = units.unit(name)
        if unit is None or not unit.exists:
            continue
        is_on = unit.active in {"active", "activating"}
        if is_on or (name in _AT_BOOT and unit.enabled in {"enabled", "generated"}):
            yield (
                f"{name} {'runs' if name in _DAEMONS else 'is enabled'} and {does}: "
                f"sudo systemctl disable --now {name}, or it undoes this"
            )
