from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import sensors
from tests.unit.doctor.driven_cards import RTX3090, SECOND, SXM2, look, rig, statuses
from tests.unit.doctor.examining import snapshot_of

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.probe.snapshot import HostSnapshot


@pytest.mark.parametrize(
    ("celsius", "slowdown", "status"),
    [
        (41.0, 95.0, "ok"),
        (89.9, 95.0, "ok"),
        (90.0, 95.0, "warn"),
        (94.9, 95.0, "warn"),
        (95.0, 95.0, "fail"),
        (None, 95.0, "skipped"),
        (65261.8, 95.0, "unknown"),
        (-273.1, 95.0, "unknown"),
        (74.9, None, "ok"),
        (75.0, None, "info"),
        (85.0, None, "warn"),
        (70.0, -2.0, "ok"),
        (86.0, -2.0, "warn"),
    ],
)
def test_the_chip(celsius: float | None, slowdown: float | None, status: str) -> None:
    gpu = replace(RTX3090, celsius=celsius, celsius_slowdown=slowdown)

    assert statuses(look("tmp.core", rig(gpu))) == [status]


@pytest.mark.parametrize(
    ("celsius", "left", "slows_with", "status"),
    [
        (86.0, 22.0, -2.0, "ok"),  # an L40S is well at 86 °C
        (90.0, 2.0, -2.0, "warn"),
        (88.0, -2.0, -2.0, "fail"),
        (84.0, 4.0, 0.0, "warn"),
        (84.0, 6.0, None, "ok"),
        (84.0, None, -2.0, "info"),
    ],
)
def test_degrees_that_are_left(
    celsius: float, left: float | None, slows_with: float | None, status: str
) -> None:
    gpu = replace(
        RTX3090,
        celsius=celsius,
        celsius_slowdown=None,
        celsius_left=left,
        celsius_left_slowdown=slows_with,
    )

    assert statuses(look("tmp.core", rig(gpu))) == [status]


def test_a_sensor_that_says_err_is_told_of() -> None:
    said = {"temperature/gpu_current_temp": "        GPU Current Temp : ERR!"}
    gpu = replace(RTX3090, celsius=None, troubles=said)

    (found,) = look("tmp.core", rig(RTX3090, gpu))

    assert (found.status, found.subject) == ("unknown", f"gpu {SECOND}")
    assert "cannot be read" in found.summary


@pytest.mark.parametrize(
    ("celsius", "most", "status"),
    [
        (38.0, 85.0, "ok"),
        (85.0, 85.0, "warn"),
        (93.0, 85.0, "fail"),
        (90.0, 95.0, "ok"),
        (90.0, None, "warn"),
        (110.0, None, "warn"),
        (60.0, 0.0, "ok"),
        (None, 85.0, "skipped"),
    ],
)
def test_the_memory_of_a_card_that_tells(
    celsius: float | None, most: float | None, status: str
) -> None:
    gpu = replace(SXM2, memory_celsius=celsius, memory_celsius_max=most)

    assert statuses(look("tmp.mem", rig(gpu))) == [status]


def test_a_geforce_that_does_not_tell_is_explained_and_not_well() -> None:
    (found,) = look("tmp.mem", rig(RTX3090, RTX3090))

    assert found.status == "skipped"
    assert "to be expected" in found.why


def test_a_card_that_should_tell_among_others_that_do() -> None:
    mixed = rig(SXM2, replace(SXM2, memory_celsius=None), RTX3090)

    assert [(one.status, one.subject) for one in look("tmp.mem", mixed)] == [
        ("unknown", f"gpu {SECOND}")
    ]


def test_cards_that_tell_and_cards_that_never_do() -> None:
    (found,) = look("tmp.mem", rig(SXM2, RTX3090))

    assert found.status == "ok"
    assert "1 of 2 cards" in found.summary


@pytest.mark.parametrize("facts", [rig(RTX3090), rig(), snapshot_of()])
def test_gddr6_is_always_skipped_and_why(facts: HostSnapshot) -> None:
    (found,) = look("tmp.mem.gddr6", facts)

    assert found.status == "skipped"
    assert "iomem=relaxed" in found.why


@pytest.mark.parametrize(
    ("percent", "celsius", "status"),
    [
        (0, 41.0, "ok"),
        (0, 60.0, "ok"),
        (0, 61.0, "warn"),
        (30, 80.0, "ok"),
        (0, None, "unknown"),
        (None, 80.0, "skipped"),
    ],
)
def test_the_fan(percent: int | None, celsius: float | None, status: str) -> None:
    gpu = replace(RTX3090, fan_percent=percent, celsius=celsius)

    assert statuses(look("tmp.fan", rig(gpu))) == [status]


def test_a_fan_that_says_err() -> None:
    gpu = replace(RTX3090, fan_percent=None, troubles={"fan_speed": "<fan_speed>ERR!</fan_speed>"})

    assert statuses(look("tmp.fan", rig(gpu))) == ["warn"]


def test_passive_modules_have_no_fan() -> None:
    (found,) = look("tmp.fan", rig(SXM2, SXM2))

    assert found.status == "skipped"
    assert "SXM" in found.why


def host(text: str, *, cut: bool = False) -> list[Finding]:
    facts = snapshot_of(
        sensors=sensors.parse(text), cut=frozenset({"sensors"} if cut else frozenset())
    )
    return look("tmp.host", facts)


NVME = "nvme-pci-0100\nAdapter: PCI adapter\nComposite:  {}°C  (low = -273.1°C, high = {}°C)\n"
EPYC = "k10temp-pci-00c3\nTctl: {}°C\nTccd1: +63.5°C\nTccd2: +67.0°C\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (NVME.format("+41.9", "+81.8"), "ok"),
        (NVME.format("+81.8", "+81.8"), "warn"),
        (NVME.format("+79.0", "+65261.8"), "ok"),
        (NVME.format("+80.0", "+65261.8"), "warn"),
        (EPYC.format("+117.5"), "ok"),
        (EPYC.format("+87.0"), "ok"),
        ("k10temp-pci-00c3\nTctl: +100.1°C\n", "warn"),
        ("k10temp-pci-00c3\nTctl: +95.0°C\n", "ok"),
        ("coretemp-isa-0000\nPackage id 0: +99.0 C (high = +84.0 C, crit = +100.0 C)\n", "ok"),
        ("coretemp-isa-0000\nPackage id 0: +100.0 C (high = +84.0 C, crit = +100.0 C)\n", "warn"),
        ("nct6798-isa-0290\nAUXTIN1: +127.0°C (crit = +125.0°C)\nPECI: -8.0°C\n", "skipped"),
        ("nct6798-isa-0290\nSYSTIN: +31.0°C (crit = +125.0°C)\n", "ok"),
        ("== /sys/devices/system/cpu thermal_throttle\ncpu0 core=3 package=9\ncpus=8\n", "info"),
        ("== /sys/devices/system/cpu thermal_throttle\ncpu0 core=3 package=100\ncpus=8\n", "warn"),
        ("== /sys/devices/system/cpu thermal_throttle\ncpus=0\n", "skipped"),
        ("what is this?\n", "unknown"),
        ("", "skipped"),
    ],
)
def test_cpus_and_disks(text: str, status: str) -> None:
    assert statuses(host(text)) == [status]
    expected = status if status in {"warn", "info"} else "unknown"
    assert statuses(host(text, cut=True)) == [expected]


def test_every_disk_that_is_too_hot_is_named() -> None:
    found = host(NVME.format("+90.0", "+81.8") + NVME.format("+91.0", "+81.8"))

    assert statuses(found) == ["warn", "warn"]
    assert found[0].subject == "nvme-pci-0100 Composite"


def test_sensors_that_were_not_read_are_not_well() -> None:
    (found,) = look("tmp.host", snapshot_of(timed_out=frozenset({"sensors"})))

    assert found.status == "unknown"
    assert "in time" in found.summary


@pytest.mark.parametrize(
    ("warmth", "watts", "status"),
    [
        ((70.0, 72.0, 88.0), (300.0, 300.0, 310.0), ["warn"]),
        ((70.0, 72.0, 84.0), (300.0, 300.0, 310.0), ["ok"]),
        ((70.0, 88.0), (300.0, 300.0), ["warn"]),
        ((30.0, 31.0, 55.0), (21.0, 21.0, 22.0), ["ok"]),
        ((40.0, 41.0, 88.0), (21.0, 21.0, 300.0), ["unknown"]),
        ((70.0, None, 88.0), (300.0, 300.0, 300.0), ["unknown", "warn"]),
        ((88.0,), (300.0,), ["skipped"]),
    ],
)
def test_a_card_among_its_siblings(
    warmth: tuple[float | None, ...], watts: tuple[float, ...], status: list[str]
) -> None:
    cards = [
        replace(RTX3090, celsius=one, watts=power) for one, power in zip(warmth, watts, strict=True)
    ]

    assert sorted(statuses(look("tmp.outlier", rig(*cards)))) == sorted(status)
