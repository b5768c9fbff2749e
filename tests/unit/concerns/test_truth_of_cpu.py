"""Whether the CPU is as declared has one answer, whoever is asked: plan, doctor or the self-check.

Each row is a declaration, what the kernel shows of each policy, and what rigops has recorded.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rigops.concerns.cpu_tuning import operations
from rigops.concerns.cpu_tuning.state import RECORD, SCHEMA, Declared
from rigops.concerns.state import REFUSED
from rigops.doctor.registry import examine
from rigops.facts.sections import Boot, CpuFreq, RigopsState
from rigops.probe.sections import boot, cpufreq, rigops_state
from rigops.probe.sections.cpufreq import Policy
from tests.unit.concerns import asked
from tests.unit.concerns.asked import ANSWERS, BOOT, Status
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec
from tests.unit.hostside.small_host import SmallHost

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.plan.change import Change
    from rigops.probe.snapshot import HostSnapshot

FOLDER: Final = "sys/devices/system/cpu/cpufreq"
ACPI: Final = Policy(
    number=0,
    line="policy0 driver=acpi-cpufreq",
    driver="acpi-cpufreq",
    governor="schedutil",
    max_khz=4_000_000,
    least_khz=2_200_000,
    most_khz=4_000_000,
    governors=("performance", "schedutil"),
    steps_khz=(4_000_000, 2_800_000, 2_200_000),
)
INTEL: Final = Policy(
    number=0,
    line="policy0 driver=intel_pstate",
    driver="intel_pstate",
    governor="powersave",
    max_khz=5_000_000,
    least_khz=800_000,
    most_khz=5_000_000,
    governors=("performance", "powersave"),
)
PERFORMANCE: Final = {"cpu_governor": "performance"}
LIMIT: Final = {"cpu_max_freq": "3GHz"}
SLOWER: Final = replace(INTEL, number=1, max_khz=2_900_000, most_khz=2_900_000)


@dataclass(frozen=True)
class Row:
    """`was`: governor and kHz before rigops changed them in this boot, by policy."""

    expected: Status
    declared: Mapping[str, object]
    policies: tuple[Policy, ...] = (ACPI,)
    was: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    loadable: frozenset[str] | None = frozenset()
    boot_id: str = BOOT
    driver: str | None = None  # that the record has; else the policy's
    schema: str = SCHEMA

    @property
    def spec(self) -> RigSpec:
        return spec(**self.declared)

    @property
    def record(self) -> str:
        drivers = {one.number: self.driver or one.driver for one in self.policies}
        policies = [
            {"policy": number, "driver": drivers[number], "governor": governor, "max_khz": khz,
             "preference": "-"}
            for number, (governor, khz) in self.was.items() if number in drivers
        ]  # fmt: skip
        return json.dumps({"schema": self.schema, "boot_id": self.boot_id, "policies": policies})

    @property
    def found(self) -> cpufreq.CpuFreq:
        return cpufreq.CpuFreq(policies=self.policies, loadable=self.loadable)

    @property
    def rigops(self) -> rigops_state.RigopsState:
        return rigops_state.RigopsState(records={RECORD: self.record})


def tuned(policy: Policy = ACPI, governor: str = "performance", khz: int = 2_800_000) -> Policy:
    return replace(policy, governor=governor, max_khz=khz)


ROWS: Final[Mapping[str, Row]] = {
    "nothing is declared": Row("absent", {}),
    # the governor
    "governor is as declared": Row("as declared", PERFORMANCE, (tuned(),)),
    "governor is another one": Row("differs", PERFORMANCE),
    "governor of one policy is another one": Row(
        "differs", PERFORMANCE, (tuned(), replace(ACPI, number=1))
    ),
    "governor that the mode has not": Row("refused", {"cpu_governor": "schedutil"}, (INTEL,)),
    "governor that the mode has not, whatever module there is": Row(
        "refused", {"cpu_governor": "schedutil"}, (INTEL,), loadable=frozenset({"schedutil"})
    ),
    "governor that no module brings": Row("refused", {"cpu_governor": "ondemand"}),
    "governor that a module brings": Row(
        "differs", {"cpu_governor": "ondemand"}, loadable=frozenset({"ondemand"})
    ),
    "governor where the driver lists none": Row(
        "differs", {"cpu_governor": "ondemand"}, (replace(ACPI, governors=()),)
    ),
    "governor where nothing says which modules there are": Row(
        "differs", {"cpu_governor": "ondemand"}, loadable=None
    ),
    "governor is as declared, and rigops has set it": Row(
        "as declared", PERFORMANCE, (tuned(),), {0: ("schedutil", "-")}
    ),
    "governor of a CPU that is offline": Row(
        "as declared", PERFORMANCE, (tuned(), replace(ACPI, number=1, governor=None))
    ),
    "governor is left over": Row(
        "left over", LIMIT, (tuned(),), {0: ("schedutil", "4000000")}
    ),
    "governor is left over from another boot": Row(
        "as declared", LIMIT, (tuned(),), {0: ("schedutil", "-")}, boot_id="another"
    ),
    "governor was set by a newer rigops": Row(
        "as declared", LIMIT, (tuned(),), {0: ("schedutil", "-")}, schema="rigops.cpu_tuning/9"
    ),
    "governor has gone back by itself": Row(
        "as declared", LIMIT, (tuned(governor="schedutil"),), {0: ("schedutil", "-")}
    ),
    # the highest frequency
    "limit is as declared": Row("as declared", LIMIT, (tuned(INTEL, khz=3_000_000),)),
    "limit is the highest step below": Row("as declared", LIMIT, (tuned(),)),
    "limit is as declared, and rigops has set it": Row(
        "as declared", LIMIT, (tuned(),), {0: ("-", "4000000")}
    ),
    "limit is another one": Row("differs", LIMIT),
    "limit is a lower one": Row("differs", LIMIT, (tuned(khz=2_200_000),)),
    "limit is off by one kHz": Row("differs", LIMIT, (tuned(INTEL, khz=3_000_001),)),
    "limit cannot be read": Row("unknown", LIMIT, (replace(INTEL, max_khz=None),)),
    "limit of one policy cannot be read": Row(
        "unknown", LIMIT, (tuned(INTEL, khz=3_000_000), replace(INTEL, number=1, max_khz=None))
    ),
    "limit is below what the driver takes": Row("refused", {"cpu_max_freq": "2GHz"}),
    "limit is below what the driver of one policy takes": Row(
        "refused", {"cpu_max_freq": "2GHz"}, (ACPI, replace(INTEL, number=1))
    ),
    "limit is below the lowest step": Row(
        "refused", {"cpu_max_freq": "2GHz"}, (replace(ACPI, least_khz=1_400_000),)
    ),
    "limit above what one policy takes, where of another one that is unknown": Row(
        "differs", LIMIT, (replace(INTEL, most_khz=None), SLOWER)
    ),
    "limit is above what the driver takes": Row("refused", {"cpu_max_freq": "5GHz"}),
    "limit at the upper end": Row("as declared", {"cpu_max_freq": "4GHz"}),
    "limit at the upper end, and it is a lower one": Row(
        "differs", {"cpu_max_freq": "4GHz"}, (tuned(khz=2_200_000),)
    ),
    "limit at the lower end": Row("differs", {"cpu_max_freq": "2.2GHz"}),
    "limit above what slower cores can": Row(
        "as declared", LIMIT, (tuned(INTEL, khz=3_000_000), SLOWER)
    ),
    "limit where nothing says what the hardware can": Row(
        "differs", LIMIT, (replace(INTEL, least_khz=None, most_khz=None),)
    ),
    "limit is left over": Row("left over", PERFORMANCE, (tuned(),), {0: ("-", "4000000")}),
    "limit has gone back to the most that the core can": Row(
        "as declared", PERFORMANCE, (replace(SLOWER, governor="performance"),),
        {1: ("-", "5000000")},
    ),
    "limit is left over on a core that is slower": Row(
        "left over", LIMIT, (tuned(INTEL, khz=3_000_000), replace(SLOWER, max_khz=2_000_000)),
        {1: ("-", "2900000")},
    ),
    # both, and none
    "both are as declared": Row("as declared", {**PERFORMANCE, **LIMIT}, (tuned(),)),
    "one is as declared and the other one not": Row(
        "differs", {**PERFORMANCE, **LIMIT}, (tuned(governor="schedutil"),)
    ),
    "both are left over from another driver": Row(
        "as declared", LIMIT, (tuned(),), {0: ("schedutil", "4000000")}, driver="amd-pstate"
    ),
    "nothing scales": Row("not here", PERFORMANCE, ()),
}  # fmt: skip


# ---- three who are asked


def changes(row: Row, patch: pytest.MonkeyPatch) -> list[Change] | None:
    """What the operation announces. None: blocked."""
    declared = Declared(row.spec.cpu_governor, row.spec.cpu_max_freq)
    facts: asked.Facts = {
        RigopsState: row.rigops,
        Boot: boot.Boot(boot_id=BOOT),
        CpuFreq: row.found,
    }
    asked.collected(patch, operations, facts)
    if any(state.status == REFUSED for state in operations._judged(declared)):
        return None
    return asked.announced(patch, operations._settings(declared))


def finding(row: Row) -> Finding:
    snapshot = snapshot_of(cpufreq=row.found, rigops_state=row.rigops, boot=boot.Boot(boot_id=BOOT))
    return look(snapshot, row.spec)


def look(snapshot: HostSnapshot, declared: RigSpec) -> Finding:
    (found,) = examine(
        snapshot,
        declared,
        catalog(),
        checks=(check_of("cpu.gov"),),
        concerns=frozenset({"cpu_tuning"}),
    )
    return found


def by_self_check(row: Row, root: Path) -> str:
    if not row.declared:
        return "not asked"
    host = SmallHost(root, "dash")
    host.write("proc/sys/kernel/random/boot_id", f"{BOOT}\n")
    host.write("proc/uptime", "90000.00 1.00")
    host.write(RECORD.lstrip("/"), row.record)
    for name in row.loadable or ():
        folder = f"lib/modules/{platform.release()}/kernel/drivers/cpufreq"
        host.write(f"{folder}/cpufreq_{name}.ko.xz", "")
    for policy in row.policies:
        for name, value in {
            "scaling_driver": policy.driver,
            "scaling_governor": policy.governor,
            "scaling_available_governors": " ".join(policy.governors) or None,
            "scaling_available_frequencies": " ".join(map(str, policy.steps_khz)) or None,
            "scaling_max_freq": policy.max_khz,
            "cpuinfo_min_freq": policy.least_khz,
            "cpuinfo_max_freq": policy.most_khz,
        }.items():
            if value is not None:
                host.write(f"{FOLDER}/policy{policy.number}/{name}", f"{value}\n")
    words = f"{row.spec.cpu_governor or '-'} {row.spec.cpu_max_freq or '-'}"
    host.write("etc/rigops/self_check", f"check cpu_tuning /cpu_tuning check {words}\n")
    return asked.by_self_check(root, "cpu.gov", "")


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]

    found = asked.by_plan(changes(row, monkeypatch)), asked.by_doctor(finding(row))

    assert found == ANSWERS[row.expected][:2]


@pytest.mark.parametrize(
    "name", asked.one_of_a_kind(ROWS, lambda row: (row.expected, *row.declared))
)
def test_the_self_check_agrees(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    # Plan does not install what is refused; a table of before may be there.
    expected = "warn" if row.expected == "refused" else ANSWERS[row.expected][2]
    assert by_self_check(row, tmp_path) == expected


def test_a_difference_shows_the_lines_of_the_kernel_and_all_policies() -> None:
    found = finding(Row("differs", LIMIT, (ACPI, replace(ACPI, number=1), tuned(ACPI))))

    assert found.summary == ("CPU policies 0-1 highest frequency is 4 GHz, declared 2.8 GHz")
    assert [one.line for one in found.evidence] == [ACPI.line]


def test_what_is_left_over_is_said_to_be() -> None:
    was = {0: ("schedutil", "4000000")}

    for declared in (LIMIT, PERFORMANCE):
        found = finding(Row("left over", declared, (tuned(),), was))
        assert found.summary.endswith("by rigops, and no longer declared")


def test_nothing_is_said_of_what_has_gone_back_by_itself() -> None:
    was = {0: ("schedutil", "4000000")}

    governor = finding(Row("as declared", LIMIT, (tuned(governor="schedutil"),), was))
    limit = finding(Row("as declared", PERFORMANCE, (tuned(khz=4_000_000),), was))

    assert ("governor" in governor.summary, "frequency" in limit.summary) == (False, False)


@pytest.mark.parametrize("cut", [(), (ACPI,), (tuned(),)])
def test_policies_that_were_not_collected_whole_are_not_well(cut: tuple[Policy, ...]) -> None:
    snapshot = snapshot_of(cpufreq=cpufreq.CpuFreq(policies=cut), cut=("cpufreq",))

    for one in (snapshot, snapshot_of()):
        assert look(one, spec(**PERFORMANCE)).status in {"unknown", "warn"}


# ---- what doctor says that apply does, apply does

_KHZ: Final = some.sampled_from([None, 800_000, 2_200_000, 2_800_000, 3_000_000, 5_000_000])
_POLICY: Final = some.builds(
    replace,
    some.sampled_from([ACPI, INTEL]),
    governor=some.sampled_from(["performance", "powersave", "schedutil", None]),
    governors=some.sampled_from([(), ("performance", "powersave")]),
    max_khz=_KHZ,
    least_khz=_KHZ,
    most_khz=_KHZ,
)


@given(
    some.fixed_dictionaries(
        {},
        optional={
            "cpu_governor": some.sampled_from(["performance", "schedutil"]),
            "cpu_max_freq": some.sampled_from(["2GHz", "3GHz", "4.5GHz"]),
        },
    ).filter(bool),
    some.lists(_POLICY, max_size=3),
    some.dictionaries(
        some.integers(0, 2), some.sampled_from([("schedutil", "-"), ("-", "4000000")])
    ),
    some.sampled_from([frozenset(), frozenset({"schedutil"})]),
)
def test_doctor_says_apply_if_and_only_if_plan_has_a_change(
    declared: dict[str, object],
    policies: list[Policy],
    was: dict[int, tuple[str, str]],
    loadable: frozenset[str],
) -> None:
    numbered = tuple(replace(one, number=at) for at, one in enumerate(policies))
    row = Row("absent", declared, numbered, was, loadable)
    with pytest.MonkeyPatch.context() as patch:
        found = changes(row, patch)

    fix = finding(row).fix

    assert bool(fix and fix.by_apply) == bool(found)
