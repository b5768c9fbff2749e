"""Memory modules, their channels, and what EDAC counts."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.doctor.examining import check_of, judge
from tests.unit.doctor.logged import journal

GIB: Final = 1024 * 1024
LOG: Final = journal((0.0, "Linux version 6.1.0-18-amd64"))
CORRECTED: Final = "EDAC MC0: 1 CE on mc#0csrow#3channel#1 (csrow:3 channel:1 page:0x0)"


def memory(
    *slots: tuple[str, str], kernel_gib: int = 128, edac: str = "", speed: int = 3200
) -> str:
    """Modules by place and size; "-" is an empty one."""
    records = "".join(
        f"Handle 0x0012, DMI type 17, 92 bytes\nMemory Device\n\tSize: {size}\n"
        f"\tBank Locator: {place}\n\tType: DDR4\n\tSpeed: 3200 MT/s\n"
        f"\tConfigured Memory Speed: {speed} MT/s\n\n"
        for place, size in slots
    ).replace("Size: -", "Size: No Module Installed")
    return (
        f"== /proc/meminfo\nMemTotal: {kernel_gib * GIB} kB\n\n"
        f"== ls /sys/devices/system/edac/mc\n{edac}== dmidecode -t memory\n# dmidecode 3.4\n\n"
        f"{records}"
    )


def channels(*names: str, empty: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    used = [(f"P0 CHANNEL {name}", "32 GB") for name in names]
    return [*used, *((f"P0 CHANNEL {name}", "-") for name in empty)]


def statuses(check: str, text: str | None, **sections: str) -> list[str]:
    texts = {"memory": text, **{name.replace("_", "-"): one for name, one in sections.items()}}
    return [one.status for one in judge(texts, checks=[check_of(check)])]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (memory(*channels(*"ABCD")), ["ok"]),
        (memory(*channels(*"ABCD"), kernel_gib=125), ["ok"]),
        (memory(*channels(*"ABCD"), kernel_gib=94), ["warn"]),
        (memory(*channels(*"ABC", empty=("D",)), kernel_gib=94), ["warn"]),
        (memory(*channels(*"AB", empty=("C", "D")), kernel_gib=62), ["info"]),
        (memory(*channels(*"ABC", empty=tuple("DEF")), kernel_gib=94), ["info"]),
        (memory(*channels("A", empty=("B",)), kernel_gib=31), ["info"]),
        (memory(*channels(*"ABCD"), speed=2133), ["info"]),
        (
            memory(("DIMM_A1", "32 GB"), ("DIMM_A2", "-"), ("DIMM_B1", "32 GB"), kernel_gib=62),
            ["ok"],
        ),
        (memory(("RAM slot #0", "4096 MB"), ("RAM slot #1", "-"), kernel_gib=3), ["ok"]),
        (memory(("P0 CHANNEL A", "Unknown")), ["unknown"]),
        (memory(*channels("A"), ("P0 CHANNEL A", "Unknown"), kernel_gib=31), ["unknown"]),
        (memory().partition("== dmidecode")[0], ["skipped"]),
        (memory(), ["skipped"]),
        ("", ["unknown"]),
        (None, ["unknown"]),
    ],
)
def test_modules(text: str | None, status: list[str]) -> None:
    assert statuses("mem.dimm", text) == status


def test_each_processor_has_channels_of_its_own() -> None:
    slots = [(f"P{cpu}_Node0_Channel{at}_Dimm0", "32 GB") for cpu in (0, 1) for at in range(8)]
    lost = [
        (place, "-" if place.startswith("P1_Node0_Channel7") else size) for place, size in slots
    ]

    assert statuses("mem.dimm", memory(*slots, kernel_gib=503)) == ["ok"]
    assert statuses("mem.dimm", memory(*lost, kernel_gib=471)) == ["warn"]


def test_the_modules_of_a_virtual_machine_are_its_hosts() -> None:
    boot = "== systemd-detect-virt\nkvm\n"

    assert statuses("mem.dimm", memory(("RAM slot #0", "64 GB")), boot=boot) == ["skipped"]


def edac(*, corrected: int = 0, uncorrected: int = 0) -> str:
    counts = f"ce={corrected} ue={uncorrected} size=16384 label="
    return memory(edac=f"mc0 {counts}F17h_M31h\nmc0/dimm0 {counts}mc#0csrow#0channel#0\n")


@pytest.mark.parametrize(
    ("text", "log", "status"),
    [
        (edac(), LOG, ["ok"]),
        (None, LOG, ["ok"]),
        (edac(corrected=3), LOG, ["warn"]),
        (edac(uncorrected=1, corrected=3), LOG, ["fail"]),
        (edac(corrected=3), journal((1.0, CORRECTED)), ["warn"]),
        (edac(corrected=3), "", ["warn"]),
        (edac(), "", ["unknown"]),
        (memory(edac="mc0 ce=- ue=- size=- label=-\n"), LOG, ["ok"]),
    ],
)
def test_errors_that_edac_counts(text: str | None, log: str, status: list[str]) -> None:
    assert statuses("ram.ecc", text, kernel_log=log) == status
