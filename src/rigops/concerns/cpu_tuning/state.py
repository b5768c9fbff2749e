"""Whether the CPU policies have what is declared. Pure; Python 3.8 and the standard library only.

A policy is as the probe reads it, or as the self-check does.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.concerns.state import AS_DECLARED, DIFFERS, LEFT_OVER, REFUSED, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Protocol

    from rigops.concerns.state import Status

    class Policy(Protocol):
        """`governors`: those that may be had without loading a module. Empty, None: unknown."""

        @property
        def number(self) -> int: ...
        @property
        def driver(self) -> str | None: ...
        @property
        def governor(self) -> str | None: ...
        @property
        def governors(self) -> tuple[str, ...]: ...
        @property
        def max_khz(self) -> int | None: ...
        @property
        def least_khz(self) -> int | None: ...
        @property
        def most_khz(self) -> int | None: ...
        @property
        def steps_khz(self) -> tuple[int, ...]: ...
        @property
        def line(self) -> str: ...


CHECK: Final = "cpu.gov"
RECORD: Final = "/var/lib/rigops/cpu_tuning.json"
SCHEMA: Final = "rigops.cpu_tuning/1"
ACPI: Final = "acpi-cpufreq"
# These drivers choose frequencies by themselves. With any other the kernel loads a governor's
# module when its name is written.
WITHOUT_MODULES: Final = frozenset({"intel_pstate", "amd-pstate-epp"})
NOTHING_SCALES: Final = "the kernel scales no CPU frequency here"

_OTHER_MODE: Final = {
    "intel_pstate": ', or "kernel_args": ["intel_pstate=passive"] for the others',
    "amd-pstate-epp": ', or "kernel_args": ["amd_pstate=guided"] for the others',
}
_KHZ_OF_GHZ: Final = 1_000_000
_KHZ_OF_MHZ: Final = 1_000
_GOVERNOR: Final = "governor"
_LIMIT: Final = "highest frequency"
_SHOWN: Final = 3  # policies, as evidence


class Declared(NamedTuple):
    governor: str | None = None
    khz: int | None = None

    @property
    def words(self) -> tuple[str, str]:
        """For the program."""
        return self.governor or "-", str(self.khz or "-")


class Before(NamedTuple):
    """A policy's value before rigops changed it; None: rigops did not change that."""

    governor: str | None
    khz: int | None


_NOTHING: Final = Before(None, None)


def was_set(text: str, boot_id: str | None) -> dict[tuple[int, str], Before]:
    """By policy and driver, of the record of the program. Nothing of another boot.

    Nor where it is damaged: then nothing can be undone by it.
    """
    with suppress(ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        record = json.loads(text)
        if (record["schema"], record["boot_id"]) == (SCHEMA, boot_id):
            return {
                (int(one["policy"]), str(one["driver"])): Before(
                    None if one["governor"] == "-" else str(one["governor"]),
                    None if one["max_khz"] == "-" else int(one["max_khz"]),
                )
                for one in record["policies"]
            }
    return {}


def judge_policies(
    declared: Declared,
    policies: Sequence[Policy],
    was: Mapping[tuple[int, str], Before],
    loadable: Collection[str] | None,
) -> list[State]:
    """Policies with the same values are one. `policies`: those with a CPU online.

    `was`: as `was_set` has it. `loadable`: governors of which the kernel has a module.
    """
    pairs = [(one, was.get((one.number, one.driver or ""), _NOTHING)) for one in policies]
    governors = [
        (one, _governor(declared.governor, one, before.governor, loadable)) for one, before in pairs
    ]
    if refusal := _refused_limit(declared.khz, policies):
        return [*_alike(governors), State(CHECK, "host", _LIMIT, "", "", REFUSED, refusal)]
    limits = [(one, _highest(declared.khz, one, before.khz)) for one, before in pairs]
    return [*_alike(governors), *_alike(limits)]


def _governor(
    declared: str | None, policy: Policy, before: str | None, loadable: Collection[str] | None
) -> State | None:
    wanted, now = declared or before, policy.governor or ""
    if not wanted:
        return None
    state = State(CHECK, "host", _GOVERNOR, wanted, now, DIFFERS if declared else LEFT_OVER)
    if now == wanted:
        state = state._replace(status=AS_DECLARED)
    if not declared:
        return state if state.is_to_change else None
    # Without a list the kernel itself answers.
    others: Collection[str] | None = () if policy.driver in WITHOUT_MODULES else loadable
    if not policy.governors or others is None or wanted in {*policy.governors, *others}:
        return state
    why = (
        f"({policy.driver}): it is not among {', '.join(sorted({*policy.governors, *others}))}. "
        f"fix: declare one of those{_OTHER_MODE.get(policy.driver or '', '')}"
    )
    return state._replace(status=REFUSED, why=why)


def _highest(declared: int | None, policy: Policy, before: int | None) -> State | None:
    held = held_khz(policy, declared) if declared else None
    is_wanted = held is not None
    if held is None and before is not None:
        held = min(before, policy.most_khz or before)
    if held is None:
        return None
    status: Status = DIFFERS if is_wanted else LEFT_OVER
    state = State(CHECK, "host", _LIMIT, frequency(held), "", status)
    if policy.max_khz is None:
        return state._replace(status=UNKNOWN, why="scaling_max_freq cannot be read")
    state = state._replace(now=frequency(policy.max_khz))
    if policy.max_khz == held:
        return state._replace(status=AS_DECLARED) if is_wanted else None
    return state


def _alike(pairs: Sequence[tuple[Policy, State | None]]) -> Iterator[State]:
    """Each state once, with the policies that are so."""
    for state in dict.fromkeys(its for _, its in pairs if its):
        alike = [policy for policy, its in pairs if its == state]
        name = f"CPU {named([one.number for one in alike])}"
        lines = tuple(one.line for one in alike[:_SHOWN])
        why = f'cpu_governor = "{state.wanted}": {name} {state.why}'
        yield state._replace(
            name=f"{name} {state.name}",
            why=why if state.status == REFUSED else state.why,
            evidence=lines,
        )


def _refused_limit(khz: int | None, policies: Sequence[Policy]) -> str:
    if khz is None:
        return ""
    lows = [(one, lowest(one)) for one in policies]
    highs = [one.most_khz for one in policies]
    known = [high for high in highs if high is not None]
    below = [(one, low) for one, low in lows if low is not None and khz < low]
    if below:
        numbers = named([one.number for one, _ in below])
        most = f" to {frequency(max(known))}" if known else " or more"
        return (
            f'cpu_max_freq = "{frequency(khz)}": CPU {numbers} ({below[0][0].driver}) accepts '
            f"{frequency(max(low for _, low in below))}{most}. fix: declare one of those"
        )
    if known and len(known) == len(highs) and khz > max(known):
        least = [low for _, low in lows if low is not None]
        range_text = f"{frequency(max(least))} to " if least else "up to "
        boost = (
            ", which counts without boost" if any(one.driver == ACPI for one in policies) else ""
        )
        return (
            f'cpu_max_freq = "{frequency(khz)}": {policies[0].driver} accepts {range_text}'
            f"{frequency(max(known))}{boost}. fix: declare one of those, or drop it: "
            "there is nothing to limit"
        )
    return ""


def lowest(policy: Policy) -> int | None:
    return min(policy.steps_khz) if policy.steps_khz else policy.least_khz


def held_khz(policy: Policy, khz: int) -> int | None:
    """The limit that will hold; None: this policy is slower anyway. As the program has it."""
    if policy.most_khz is not None and khz > policy.most_khz:
        return None
    if not policy.steps_khz:
        return khz
    return max((step for step in policy.steps_khz if step <= khz), default=None)


def frequency(khz: int) -> str:
    if khz < _KHZ_OF_GHZ:
        return f"{khz / _KHZ_OF_MHZ:g} MHz"
    return f"{khz / _KHZ_OF_GHZ:.7g} GHz"


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
