"""Processor clocks and the names that the firmware gives to board and machine."""

import hashlib
from pathlib import Path

from .rig import Rig

_GOVERNORS = "conservative ondemand userspace powersave performance schedutil"
_MIDDLE_KHZ = 2800000


def _write_policy(sys: Path, rig: Rig, number: int) -> None:
    cpu = sys / "devices/system/cpu"
    policy = cpu / f"cpufreq/policy{number}"
    policy.mkdir(parents=True)
    highest = int(rig.cpu.get("max_khz", 4000000))
    lowest = 1200000 if rig.is_intel else 2200000
    values = {
        "affected_cpus": number,
        "related_cpus": number,
        "cpuinfo_max_freq": highest,
        "cpuinfo_min_freq": lowest,
        "scaling_max_freq": highest,
        "scaling_min_freq": lowest,
        "scaling_cur_freq": lowest,
        "scaling_driver": "intel_cpufreq" if rig.is_intel else "acpi-cpufreq",
        "scaling_available_governors": _GOVERNORS,
        "scaling_governor": "schedutil",
    }
    if not rig.is_intel:
        values["scaling_available_frequencies"] = f"{highest} {_MIDDLE_KHZ} {lowest} "
    for name, value in values.items():
        (policy / name).write_text(f"{value}\n")
    (cpu / f"cpu{number}").mkdir(exist_ok=True)
    (cpu / f"cpu{number}/cpufreq").symlink_to(f"../cpufreq/policy{number}")


def write(sys: Path, rig: Rig) -> None:
    for number in range(rig.threads):
        _write_policy(sys, rig, number)
    (sys / "devices/system/cpu/cpufreq/boost").write_text("1\n")
    names = sys / "devices/virtual/dmi/id"
    names.mkdir(parents=True, exist_ok=True)
    unique = hashlib.md5(rig.name.encode(), usedforsecurity=False).hexdigest()
    uuid = "-".join((unique[:8], unique[8:12], unique[12:16], unique[16:20], unique[20:]))
    vendor, board = rig.board.get("vendor", ""), rig.board.get("name", "")
    values = {
        "board_vendor": vendor,
        "board_name": board,
        "sys_vendor": vendor,
        "product_name": board,
        "bios_vendor": "American Megatrends Inc.",
        "bios_version": rig.board.get("bios_version", ""),
        "bios_date": rig.board.get("bios_date", "04/20/2023"),
        "chassis_type": "3",
        "product_uuid": uuid,
    }
    for name, value in values.items():
        (names / name).write_text(value + "\n")
    (names / "product_uuid").chmod(0o400)
    link = sys / "class/dmi/id"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("../../devices/virtual/dmi/id")
