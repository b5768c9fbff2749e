"""Simulated cpufreq trees: a driver each, in each mode that changes what sysfs offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FOLDER: Final = "sys/devices/system/cpu/cpufreq"
_ALL: Final = "conservative ondemand userspace powersave performance schedutil"


@dataclass(frozen=True)
class Tree:
    """Of two policies. `governor`, `khz`: to declare; `held_khz`: what `khz` comes to."""

    driver: str
    least_khz: int
    most_khz: int
    khz: int
    governor: str = "performance"
    was_governor: str = "schedutil"
    governors: str = _ALL
    steps: str = ""
    held_khz: int = 0
    preference: str = ""
    status: str = ""  # of a driver with modes: its file and the mode

    def __post_init__(self) -> None:
        if not self.held_khz:
            object.__setattr__(self, "held_khz", self.khz)

    @property
    def files(self) -> dict[str, str]:
        of_a_policy = {
            "scaling_driver": self.driver,
            "scaling_governor": self.was_governor,
            "scaling_available_governors": self.governors,
            "cpuinfo_min_freq": str(self.least_khz),
            "cpuinfo_max_freq": str(self.most_khz),
            "scaling_min_freq": str(self.least_khz),
            "scaling_max_freq": str(self.most_khz),
            "scaling_cur_freq": str(self.least_khz),
        }
        if self.steps:
            of_a_policy["scaling_available_frequencies"] = f"{self.steps} "
        if self.preference:
            of_a_policy["energy_performance_preference"] = self.preference
        found = {
            f"{FOLDER}/policy{number}/{name}": f"{text}\n"
            for number in (0, 1)
            for name, text in of_a_policy.items()
        }
        if self.driver == "acpi-cpufreq":
            found[f"{FOLDER}/boost"] = "1\n"
        if self.status:
            driver, mode = self.status.split()
            found[f"sys/devices/system/cpu/{driver}/status"] = f"{mode}\n"
        return found


TREES: Final = {
    "acpi-cpufreq": Tree(
        "acpi-cpufreq", 2_200_000, 4_000_000, 3_000_000,
        steps="4000000 2800000 2200000", held_khz=2_800_000,
    ),
    "intel_pstate active": Tree(
        "intel_pstate", 800_000, 5_000_000, 2_500_000, was_governor="powersave",
        governors="performance powersave", preference="balance_performance",
        status="intel_pstate active",
    ),
    "intel_pstate passive": Tree(
        "intel_cpufreq", 1_200_000, 3_300_000, 2_500_000, status="intel_pstate passive"
    ),
    "amd-pstate active": Tree(
        "amd-pstate-epp", 400_000, 5_759_000, 3_200_000, was_governor="powersave",
        governors="performance powersave", preference="balance_performance",
        status="amd_pstate active",
    ),
    "amd-pstate guided": Tree(
        "amd-pstate", 400_000, 5_759_000, 3_200_000, status="amd_pstate guided"
    ),
    "amd-pstate passive": Tree(
        "amd-pstate", 400_000, 5_759_000, 3_200_000, status="amd_pstate passive"
    ),
}  # fmt: skip
