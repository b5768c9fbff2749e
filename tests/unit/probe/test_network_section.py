from __future__ import annotations

from rigops.probe.sections import network
from tests.unit.probe import host_sections


def test_interfaces_and_where_they_sit() -> None:
    found = network.parse(host_sections.NETWORK)
    wired, loopback = found.interfaces

    assert (wired.name, wired.address, wired.driver, wired.state, wired.kind) == (
        "enp5s0",
        "0000:05:00.0",
        "r8169",
        "up",
        "wired",
    )
    assert (loopback.address, loopback.kind) == (None, "virtual")
    assert not found.unparsed


def test_the_configuration_that_names_an_interface() -> None:
    found = network.parse(host_sections.NETWORK)

    assert [(one.file, one.number) for one in found.matches if "enp5s0" in one.text] == [
        ("/etc/network/interfaces", 3),
        ("/etc/netplan/50-cloud-init.yaml", 4),
    ]


def test_a_file_that_could_not_be_read_is_not_passed_over() -> None:
    text = "== grep -Hn names of interfaces\n/etc/netplan/a.yaml cannot be read\n"

    assert network.parse(text).unparsed == ("/etc/netplan/a.yaml cannot be read",)
