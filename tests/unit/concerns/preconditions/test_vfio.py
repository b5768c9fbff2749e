from __future__ import annotations

import pytest

from rigops.concerns.preconditions.card_users import of_the_iommu, warning
from rigops.probe.sections import modprobe, pci

NOTHING = modprobe.Modprobe()
GIVEN_AWAY = (
    "0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 driver=vfio-pci\n"
    "0000:0b:00.1 vendor=0x10de device=0x1aef class=0x040300 driver=vfio-pci\n"
)
OURS = "0000:0a:00.0 vendor=0x10de device=0x2204 class=0x030000 driver=nvidia\n"
IDS = modprobe.parse("== /etc/modprobe.d/vfio.conf\noptions vfio-pci ids=10de:2204 disable_vga=1\n")


def test_functions_that_virtual_machines_have_are_named_cards_first() -> None:
    text = warning("iommu=pt", pci.parse(OURS + GIVEN_AWAY), NOTHING, ["ro"])

    assert text.startswith("iommu=pt affects virtual machines here too")
    assert "(GPU 0000:0b:00.0 and 0000:0b:00.1 bound to vfio-pci)" in text
    assert "0000:0a:00.0" not in text


def test_ids_for_the_next_boot_count_though_nothing_is_bound_yet() -> None:
    text = warning("iommu=pt", pci.parse(OURS), IDS, ["ro", "vfio-pci.ids=10de:1aef"])

    assert "/etc/modprobe.d/vfio.conf gives 10de:2204 to vfio-pci" in text
    assert "the kernel runs with vfio-pci.ids=10de:1aef" in text


def test_a_host_without_virtual_machines_is_not_warned() -> None:
    assert warning("iommu=pt", pci.parse(OURS), NOTHING, ["ro", "iommu=pt"]) == ""


@pytest.mark.parametrize(
    ("argument", "is_one"),
    [
        ("iommu=pt", True),
        ("amd_iommu=off", True),
        ("iommu.passthrough=1", True),
        ("pcie_acs_override=downstream", True),
        ("pci=realloc", False),
        ("iommufoo=1", False),
    ],
)
def test_arguments_of_the_iommu(*, argument: str, is_one: bool) -> None:
    assert of_the_iommu(["quiet", argument]) == ((argument,) if is_one else ())
