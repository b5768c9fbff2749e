"""Guards around new kernel arguments: what is in their way, and what a plan tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.kernel_args.bootloader import grub
from rigops.probe.sections.bootloader import Bootloader
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded
from tests.unit.probe.host_sections import FIRMWARE

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan

SMALL = "0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 bar1=268435456\n"
INTEL = FIRMWARE.replace("AuthenticAMD", "GenuineIntel").replace("IVRS", "DMAR")
DEPLOY = """
from rigops.concerns.acs import operations as acs
from rigops.concerns.kernel_args.guards import arguments_can_count, consequences
from rigops.concerns.preconditions import guards
from rigops.ownership.owned_files import owned_file

wanted = {wanted!r}
arguments_can_count(concern="kernel_args", wanted=wanted)
if {changes!r}:
    owned_file(concern="kernel_args", path="/etc/arguments", content=" ".join(wanted))
guards.notices(concern="kernel_args", texts=lambda: consequences(wanted, p2p={p2p!r}))
if {acs!r}:
    guards.notices(concern="kernel_args", texts=acs.consequences)
"""


class Rig:
    """A deploy that writes a file of the concern stands for the change itself."""

    def __init__(self, folder: Path, *wanted: str, changes: bool = True, **how: Any) -> None:
        self.deploy = folder / "kernel_args.py"
        self.deploy.write_text(
            DEPLOY.format(
                wanted=wanted, changes=changes, p2p=how.get("p2p"), acs=how.get("acs", False)
            )
        )
        self.host = FakeHost()
        files = {grub.DEFAULTS: how.get("defaults", "")} | how.get("files", {})
        known = boot_facts(
            Bootloader(files=files),
            line=how.get("live", "ro quiet"),
            virtualization=how.get("virtualization", "none"),
        )
        if changes:
            known |= guarded(firmware=how.get("firmware", FIRMWARE), pci=how.get("pci", SMALL))
        self.engine = engine_of(self.host, {}, known, ["/etc/arguments", *GUARD_PATHS])

    def plan(self) -> Plan:
        return self.engine.plan("rig", [self.deploy])

    def notices(self) -> list[str]:
        planned = self.plan()
        assert not planned.blocked
        return [text for _, text in planned.notices]


def test_amd_iommu_on_is_in_the_way_with_what_to_write_instead(tmp_path: Path) -> None:
    ((concern, reason),) = Rig(tmp_path, "amd_iommu=on", "iommu=pt").plan().blocked

    assert concern == "kernel_args"
    assert "amd_iommu=on is an option of no kernel" in reason


@pytest.mark.parametrize(
    "how",
    [
        {"live": "ro amd_iommu=on"},
        {"defaults": 'GRUB_CMDLINE_LINUX="amd_iommu=on"\n'},
    ],
    ids=["live already", "somebody else's"],
)
def test_what_rigops_would_not_add_is_in_nobodys_way(tmp_path: Path, how: Any) -> None:
    assert not Rig(tmp_path, "amd_iommu=on", **how).plan().blocked


def test_a_file_that_would_lose_our_arguments_is_in_the_way(tmp_path: Path) -> None:
    files = {"/etc/default/grub.d/zz.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}
    ((_, reason),) = Rig(tmp_path, "iommu=pt", files=files).plan().blocked

    assert "/etc/default/grub.d/zz.cfg, line 1" in reason


def test_passthrough_is_told_with_what_it_takes_away(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "iommu=pt").notices()

    assert "DMA isolation" in text


def test_an_intel_machine_that_needs_more_is_told_which_declaration(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "iommu=pt", firmware=INTEL).notices()

    assert '["intel_iommu=on", "iommu=pt"]' in text


def test_an_intel_machine_that_is_given_both_is_told_of_isolation(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "intel_iommu=on", "iommu=pt", firmware=INTEL).notices()

    assert "DMA isolation" in text


def test_a_conflict_is_told_with_file_and_line(tmp_path: Path) -> None:
    defaults = 'GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=nopt"\n'
    _, conflict = Rig(tmp_path, "iommu=pt", defaults=defaults).notices()

    assert "iommu=nopt is configured too (/etc/default/grub, line 2)" in conflict


def test_an_iommu_that_is_off_in_the_bios_is_told_in_the_boards_words(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "iommu=pt", firmware=FIRMWARE.replace("IVRS\n", "")).notices()

    assert "the firmware offers no IOMMU" in text
    assert "Pro WS WRX80E-SAGE SE WIFI" in text
    assert "isolation" not in text


def test_a_virtual_machine_has_no_bios_to_speak_of(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        "iommu=pt",
        firmware=FIRMWARE.replace("IVRS\n", ""),
        virtualization="kvm",
        p2p="required",
    )

    assert not any("BIOS" in text for text in rig.notices())


def test_small_windows_are_told_where_p2p_is_required(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "pci=realloc", p2p="required").notices()

    assert "0000:0b:00.0 (256 MiB of 24 GiB)" in text
    assert "Re-Size BAR Support" in text


def test_small_windows_are_nobodys_business_elsewhere(tmp_path: Path) -> None:
    assert Rig(tmp_path, "pci=realloc", p2p="measure").notices() == []


def test_acs_in_the_bios_is_told_where_acs_is_to_change(tmp_path: Path) -> None:
    (text,) = Rig(tmp_path, "pci=realloc", acs=True).notices()

    assert '"ACS Enable"' in text


def test_where_nothing_changes_nothing_is_asked_or_told(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "iommu=pt", changes=False, p2p="required", acs=True)

    assert rig.notices() == []
    assert rig.host.sent == []


def test_what_is_live_already_is_not_told_again(tmp_path: Path) -> None:
    assert Rig(tmp_path, "iommu=pt", live="ro iommu=pt").notices() == []
