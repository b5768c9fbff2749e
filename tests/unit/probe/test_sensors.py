from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections.sensors import SECTION, Throttled, parse
from tests.unit.patterns import slow_growth
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

PRINTED = """\
k10temp-pci-00c3
Adapter: PCI adapter
Tctl:         +117.5°C  (high = +70.0°C)
                       (crit = +75.0°C, hyst = +73.0°C)
Tccd1:        +63.2°C

nct6798-isa-0290
Adapter: ISA adapter
+12V:         +12.10 V  (min = +10.20 V, max = +13.20 V)
Vcore:      912.00 mV (min =  +0.00 V, max =  +1.74 V)
fan2:           0 RPM  (min =    0 RPM)
AUXTIN3:      -62.0°C    sensor = thermistor
SYSTIN:        +31.0 C  (high = +80.0 C, hyst = +75.0 C)  ALARM
PECI Agent 0:      N/A  (crit = +100.0°C)
intrusion0:   ALARM
beep_enable:  disabled

nvme-pci-0100
Adapter: PCI adapter
Composite:    +41.9°C  (low  = -273.1°C, high = +65261.8°C)
                       (crit = +84.8°C)

power_meter-acpi-0
Adapter: ACPI interface
power1:       88.61 W  (interval =   1.00 s, crit = 6.00 W)
"""
SDR = """\
== ipmitool sdr
CPU1 Temp        | 45 degrees C      | ok
12V              | 12.06 Volts       | ok
VBAT             | no reading        | ns
FAN1             | 1400 RPM          | ok
Chassis Intru    | 0x00              | ok
== ipmitool sel list last 50
   1 | 01/02/2026 | 10:11:12 | Voltage #0x30 | Lower Critical going low | Asserted
"""
FOLDER = "/sys/class/hwmon/hwmon1"
FILES = {
    f"{FOLDER}/name": "nvme\n",
    f"{FOLDER}/temp1_input": "41850\n",
    f"{FOLDER}/temp1_label": "Composite one\n",
    f"{FOLDER}/temp1_max": "81850\n",
    f"{FOLDER}/temp1_crit": "84850\n",
    "/sys/class/hwmon/hwmon10/name": "asusec\n",
    "/sys/class/hwmon/hwmon10/in0_input": "12096\n",
    "/sys/class/hwmon/hwmon10/in0_label": "+12V\n",
    "/sys/class/hwmon/hwmon10/temp1_input": "",
    "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "12\n",
    "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "0\n",
    "/sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "0\n",
}


def test_what_the_sensors_program_prints() -> None:
    found = parse(PRINTED)

    said = {(one.chip, one.label): one for one in found.readings}
    assert said["k10temp-pci-00c3", "Tctl"].value == 117.5
    rail = said["nct6798-isa-0290", "+12V"]
    assert (rail.kind, rail.value, rail.high) == ("volts", 12.1, 13.2)
    assert rail.line == "+12V:         +12.10 V  (min = +10.20 V, max = +13.20 V)"
    assert said["nct6798-isa-0290", "Vcore"].value == pytest.approx(0.912)
    assert said["nct6798-isa-0290", "SYSTIN"].value == 31.0
    assert said["nct6798-isa-0290", "PECI Agent 0"].value is None
    assert said["nct6798-isa-0290", "PECI Agent 0"].critical == 100.0
    assert said["nct6798-isa-0290", "fan2"].kind == "rpm"
    assert said["nvme-pci-0100", "Composite"].high == 65261.8
    assert said["power_meter-acpi-0", "power1"].critical == 6.0
    assert not found.unparsed


def test_what_a_bmc_tells() -> None:
    found = parse(SDR)

    assert [(one.label, one.value) for one in found.readings] == [
        ("CPU1 Temp", 45.0), ("12V", 12.06), ("VBAT", None), ("FAN1", 1400.0),
        ("Chassis Intru", None),
    ]  # fmt: skip
    assert [event[:1] for event in found.events] == ["1"]
    assert not found.unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_hwmon_and_the_throttle_counters(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, FILES)

    code, text = run(SECTION, shell, tmp_path, "/sys/class/hwmon", "/sys/devices/system/cpu")
    found = parse(text)

    assert code == 0
    disk, rail = [one for one in found.readings if one.value is not None]
    assert (disk.chip, disk.label) == ("nvme (hwmon1)", "Composite one")
    assert (disk.value, disk.high, disk.critical) == pytest.approx((41.85, 81.85, 84.85))
    assert (rail.chip, rail.label, rail.value) == ("asusec (hwmon10)", "+12V", 12.096)
    assert found.throttled == (Throttled("cpu0", 3, 12, "cpu0 core=3 package=12"),)
    assert not found.unparsed


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("ends", "code"), [(0, 0), (124, 1)])
def test_a_bmc_that_does_not_answer_is_told_of(
    shell: str, ends: int, code: int, tmp_path: Path
) -> None:
    tree(tmp_path, {**FILES, "/dev/ipmi0": ""})
    commands = (
        f"timeout() {{ echo 12V '|' 12.06 Volts '|' ok; return {ends}; }}; ipmitool() {{ :; }}"
    )

    ended, text = run(SECTION, shell, tmp_path, "/sys/class/hwmon", "/dev/ipmi", commands=commands)

    assert ended == code
    assert [one.value for one in parse(text).readings if one.chip == "BMC"] == [12.06]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_sensors_has_none(shell: str, tmp_path: Path) -> None:
    code, text = run(SECTION, shell, tmp_path, "/sys/class/hwmon", "/sys/devices/system/cpu")
    found = parse(text)

    assert (code, found.readings, found.unparsed) == (0, (), ())


@given(
    text=st.one_of(
        st.text(),
        st.lists(st.sampled_from((PRINTED + SDR).splitlines()), max_size=40).map("\n".join),
    ),
    cut=st.integers(0, 600),
    letter=st.characters(),
)
def test_any_text_is_read_or_named(text: str, cut: int, letter: str) -> None:
    for damaged in (text, PRINTED[:cut] + letter + PRINTED[cut:], SDR[:cut] + letter, text + SDR):
        parse(damaged)
    found = parse("\x00rubbish " + text)
    assert found.unparsed or found.readings


@pytest.mark.parametrize("unit", ["a", "a" * 999 + "\n", "temp1 ", "input=1 ", ":"])
def test_twice_the_text_takes_twice_the_time(unit: str) -> None:
    assert slow_growth(parse, lambda size: "temp1 " + unit * (size // len(unit)), 64 * 1024) is None
