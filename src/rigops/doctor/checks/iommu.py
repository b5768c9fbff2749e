"""The IOMMU: whether it translates what the cards send to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.concerns.kernel_args.iommu import INTEL_ON, leaves_intel_off, notes, without_an_iommu
from rigops.doctor import views
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views import board, passthrough, peers
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.finding import Fix, Status
    from rigops.probe.sections.iommu_groups import IommuGroups, Member
    from rigops.probe.sections.pci import Pci


_TRANSLATED = frozenset({"DMA", "DMA-FQ"})
_DIRECT = "identity"
_WHY = (
    "A translating IOMMU is between the cards: copies from one to another can hang or arrive "
    "wrong, while the driver says that they work. With iommu=pt devices reach memory directly."
)


@Check(
    "iommu.mode",
    needs=(
        PROC_CMDLINE,
        PCI,
        IOMMU_GROUPS,
        BOOTLOADER,
        FIRMWARE,
        RIGOPS_STATE,
        KERNEL_LOG,
        TOPOLOGY,
        P2P_READ,
    ),
    fixes=("apply+reboot", "hands"),
    cause_rank=150,
)
def mode(examined: Examined) -> Finding:
    """The IOMMU does not translate between the cards.

    Looks at the running kernel only: /sys/kernel/iommu_groups/*/type of each card's group.
    `identity` is well, and so is no group at all (the IOMMU is off). `DMA` and `DMA-FQ` are
    translated: a failure with two cards or more where the driver grants P2P over PCIe, or where
    that is not known, and a warning where it is known to grant none but over NVLink. The kernel's
    log line "Default domain type: Translated" is not looked at: it is printed even where no IOMMU
    works.
    """
    snapshot = examined.snapshot
    groups = snapshot[IOMMU_GROUPS].value
    if groups is None:
        return _finding("unknown", "the IOMMU groups were not collected")
    if groups.is_off and snapshot[IOMMU_GROUPS].is_complete:
        said = "the IOMMU is off, so nothing is translated"
        return _finding("ok", said, why=_why_off(examined))
    pci = snapshot[PCI].value
    if pci is None:
        return _finding("unknown", "which groups are those of the cards is not known")
    return _judged(examined, pci, groups)


def _why_off(examined: Examined) -> str:
    """Where passthrough is declared, and only an IOMMU could give it."""
    declared = examined.spec.kernel_args or ()
    seen = board.firmware(examined.snapshot)
    lacking = without_an_iommu(examined.catalog, seen, declared)
    if lacking:
        return lacking
    live = examined.snapshot[PROC_CMDLINE].or_empty.arguments
    is_left_off = leaves_intel_off(seen) and INTEL_ON not in (*declared, *live)
    return " ".join(notes(declared, (*declared, *live), seen)) if is_left_off else ""


def _finding(
    status: Status,
    summary: str,
    members: tuple[Member, ...] = (),
    more: tuple[Evidence, ...] = (),
    *,
    why: str = "",
    fix: Fix | None = None,
) -> Finding:
    evidence = (*(Evidence(IOMMU_GROUPS.name, member.line) for member in members), *more)
    return Finding(status, summary, evidence, why=why, fix=fix)


def _judged(examined: Examined, pci: Pci, groups: IommuGroups) -> Finding:
    snapshot = examined.snapshot
    found = [groups.of(gpu.address) for gpu in pci.nvidia_gpus]
    members = tuple(member for member in found if member)
    translated = tuple(member for member in members if member.type in _TRANSLATED)
    count = views.gpu_count(examined)
    if translated and count == 1:
        return _finding("ok", "translated, and the only card has no peer to copy to", translated)
    if translated and count is None:
        return _finding(
            "unknown", "translated, and how many cards there are is not known", translated
        )
    if translated:
        return _translating(examined, translated)
    granting = snapshot[P2P_READ].value
    missed = granting is not None and len(granting.gpus) > len(pci.nvidia_gpus)
    all_seen = snapshot[PCI].is_exhaustive and not missed and None not in found
    if found and all_seen and all(member.type == _DIRECT for member in members):
        return _finding("ok", "the cards reach memory directly (identity)", members)
    return _finding("unknown", "how the IOMMU treats the cards could not be read", members)


def _translating(examined: Examined, translated: tuple[Member, ...]) -> Finding:
    spared = _spared(examined)
    kinds = " and ".join(sorted({member.type for member in translated}))
    granting = examined.snapshot[P2P_READ].value
    rows = tuple(Evidence(P2P_READ.name, row) for row in granting.rows) if granting else ()
    return _finding(
        "warn" if spared else "fail",
        f"the IOMMU translates what the cards send ({kinds}){spared}",
        translated,
        rows,
        why=_WHY,
        fix=passthrough.fix(examined),
    )


def _spared(examined: Examined) -> str:
    """Why no copy between cards meets the IOMMU, or nothing. P2P not known of counts as granted."""
    snapshot = examined.snapshot
    granting, pci = snapshot[P2P_READ].value, snapshot[PCI].value
    if granting is None or pci is None or not snapshot[P2P_READ].is_complete:
        return ""
    if len(granting.gpus) < len(pci.nvidia_gpus):
        return ""
    if granting.refuses_all:
        return ", and the driver grants no P2P that could break"
    pairs = peers.pairs(examined) if snapshot[TOPOLOGY].is_complete else ()
    over_nvlink = pairs and all(pair.is_granted is False or pair.has_nvlink for pair in pairs)
    return ", and the P2P that the driver grants goes over NVLink, past it" if over_nvlink else ""
