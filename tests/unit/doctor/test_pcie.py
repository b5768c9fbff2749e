"""The ports between cards."""

from __future__ import annotations

import pytest

from rigops.doctor.views import pcie
from rigops.probe import pcie_routes
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.pcie_rigs import ONE, PCI, ROOT_PORTS, SWITCHES
from tests.unit.probe import answers


def known(**texts: str) -> HostSnapshot:
    return HostSnapshot(answers.bundle(texts))


@pytest.mark.parametrize("texts", [{"pci": PCI}, {"lspci": ROOT_PORTS}])
def test_both_sources_tell_the_same_way(texts: dict[str, str]) -> None:
    assert pcie_routes.route_to(known(**texts), ONE) == pcie_routes.Route(ONE, ("0000:40:01.1",))


def test_switches() -> None:
    seen = known(lspci=SWITCHES)
    ways = {
        bus: way
        for bus in ("03", "04", "43")
        if (way := pcie_routes.route_to(seen, f"0000:{bus}:00.0"))
    }

    assert ways["03"].ports == ("0000:00:01.1", "0000:01:00.0", "0000:02:00.0")
    assert ways["03"].shared_with(ways["04"]) == ("0000:00:01.1", "0000:01:00.0")
    assert ways["03"].between(ways["04"]) == ("0000:02:00.0", "0000:02:01.0")
    assert ways["03"].shared_with(ways["43"]) == ()
    assert len(ways["03"].between(ways["43"])) == 6
    assert pcie.port_above(seen, "0000:04:00.0") == "0000:02:01.0"


def test_a_way_whose_upper_end_is_not_listed_is_not_whole() -> None:
    lower = SWITCHES[SWITCHES.index("0000:01:00.0 PCI bridge") :]
    way = pcie_routes.route_to(known(lspci=lower), "0000:03:00.0")

    assert way is not None
    assert (way.ports, way.is_complete) == (("0000:01:00.0", "0000:02:00.0"), False)


@pytest.mark.parametrize(
    ("text", "is_complete"),
    [
        ("40:01.1 PCI bridge: A\n\tBus: primary=40, secondary=41\n", False),
        (
            "40:00.0 Host bridge: A\n40:01.1 PCI bridge: A\n\tBus: primary=40, secondary=41\n",
            True,
        ),
    ],
)
def test_without_types_the_host_bridge_tells_where_the_root_is(
    text: str, *, is_complete: bool
) -> None:
    way = pcie_routes.route_to(known(lspci=text), ONE)

    assert way is not None
    assert way.is_complete is is_complete


@pytest.mark.parametrize(
    "path",
    ["-", "/sys/devices/pci0000:40/0000:40:01.1", "/sys/devices/pci0000:40/0000:40:01.1/0000:41"],
)
def test_a_path_that_does_not_end_at_the_card_is_none(path: str) -> None:
    broken = PCI.replace(f"/sys/devices/pci0000:40/0000:40:01.1/{ONE}", path)

    assert pcie_routes.route_to(known(pci=broken), ONE) is None


def test_bridges_that_lead_to_each_other_do_not_hang() -> None:
    ring = (
        "41:00.0 PCI bridge: A\n\tBus: primary=41, secondary=42\n"
        "42:00.0 PCI bridge: A\n\tBus: primary=42, secondary=41\n"
    )
    way = pcie_routes.route_to(known(lspci=ring), ONE)

    assert way is not None
    assert not way.is_complete


@pytest.mark.parametrize(
    ("said", "is_virtual"),
    [("none", False), ("kvm", True), ("vmware", True), ("wsl", True), ("docker", None), ("", None)],
)
def test_virtual_machines(said: str, *, is_virtual: bool | None) -> None:
    boot = f"{answers.BOOT}== systemd-detect-virt\n{said}\n"

    assert pcie.is_virtual_machine(known(boot=boot)) is is_virtual


def test_devices_made_of_software_tell_a_virtual_machine() -> None:
    qemu = "00:02.0 PCI bridge [0604]: Red Hat, Inc. QEMU PCIe Root port [1b36:000c]\n"

    assert pcie.is_virtual_machine(known(lspci=qemu)) is True
