from __future__ import annotations

import pytest

from rigops.probe.sections import smart
from rigops.probe.sections.pci import Link
from tests.unit.probe import host_sections


def test_a_worn_nvme_disk() -> None:
    disk = smart.parse(host_sections.SMART).disks[0]

    assert (disk.device, disk.passed, disk.exit_bits) == ("/dev/nvme0n1", False, 8)
    assert (disk.critical_warning, disk.percentage_used, disk.media_errors) == (4, 93, 7)
    assert (disk.available_spare, disk.spare_threshold) == (80, 10)
    assert (disk.celsius, disk.power_on_hours, disk.unsafe_shutdowns) == (61, 20000, 51)
    assert not disk.sleeps


def test_a_sata_disk_and_its_cable() -> None:
    disk = smart.parse(host_sections.SMART).disks[1]

    assert disk.passed
    assert disk.attributes == {"reallocated": 8, "crc": 120}


def test_a_disk_that_sleeps_is_left_asleep_and_not_called_healthy() -> None:
    disk = smart.parse(host_sections.SMART).disks[2]

    assert (disk.sleeps, disk.passed) == (True, None)


def test_where_only_the_nvme_tool_is_there() -> None:
    disk = smart.parse(host_sections.SMART).disks[3]

    assert (disk.source, disk.celsius, disk.percentage_used, disk.available_spare) == (
        "nvme",
        37,
        3,
        100,
    )


def test_a_link_with_fewer_lanes_than_the_disk_has() -> None:
    links = smart.parse(host_sections.SMART).links

    assert links is not None
    assert (links[0].address, links[0].link, links[0].fastest_link) == (
        "0000:01:00.0",
        Link(16.0, 2),
        Link(16.0, 4),
    )


@pytest.mark.parametrize(
    "said",
    [
        "smartctl: invalid option -- 'j'",
        "{",
        "[1]",
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "",
    ],
)
def test_what_is_no_json_object_is_left_unparsed(said: str) -> None:
    found = smart.parse(f"== smartctl -n standby -j -a /dev/sda\n{said}\n")

    assert found.disks == ()
    assert found.unparsed == ("smartctl -n standby -j -a /dev/sda",)


def test_values_of_odd_types_are_unknown() -> None:
    said = '{"smart_status": [], "smartctl": {"exit_status": "0", "messages": 1}, "model_name": 1}'

    (disk,) = smart.parse(f"== smartctl -n standby -j -a /dev/sda\n{said}\n").disks

    assert (disk.passed, disk.exit_bits, disk.messages, disk.model) == (None, None, (), None)
