"""The IOMMU: whether there is one, and whether it translates what the cards send to each other."""

from __future__ import annotations

import re

from rigops.concerns.kernel_args.kernel_line import (
    INTEL_ON,
    leaves_intel_off,
    passthrough_note,
    without_an_iommu,
)
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views import board, kernel_arguments, pcie, peers, proof
from rigops.doctor.views.peers import Pair
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.iommu_groups import IommuGroups
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

_TRANSLATED = frozenset({"DMA", "DMA-FQ"})
_WHY = (
    "A translating IOMMU is between the cards: copies from one to another can hang or arrive "
    "wrong, while the driver says that they work. With iommu=pt devices reach memory directly."
)
_SLOWER = "Copies between the cards may be slower than with iommu=pt."
_SURER = "`grep . /sys/kernel/iommu_groups/*/type` and `lspci -D` on the host make it surer."
_JOINED = re.compile(
    r"^(?:pci|nvidia) (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): "
    r"Adding to iommu group [0-9]{1,5}"
)
_DOMAIN = re.compile(r"^iommu: Default domain type: (?:Translated|Passthrough)")
IOMMU = "iommu.present"
_ONLY_FOR_GUESTS = "P2P needs no IOMMU. To pass cards to virtual machines"


@Check(
    "iommu.mode",
    needs=(
        PCI,
        IOMMU_GROUPS,
        BOOTLOADER,
        FIRMWARE,
        KERNEL_LOG,
        TOPOLOGY,
        P2P_READ,
        *proof.NEEDS,
    ),
    fixes=("apply+reboot", "hands"),
    cause_rank=150,
)
def mode(examined: Examined) -> Finding:
    """The IOMMU does not translate between the cards.

    Looks at the running kernel only: /sys/kernel/iommu_groups/*/type of each card's group.
    `identity` is ok, and so is no group at all (the IOMMU is off). `DMA` and `DMA-FQ` are
    translated: a failure with two cards or more where the driver grants P2P over PCIe, or where
    that is not known, or where `p2p` is required of `driver_modules`. It is information where no
    copy between the cards meets the IOMMU: the driver grants none, NVLink connects them, or
    NVIDIA's driver offers none over PCIe between such cards; and where preflight passed for the
    present state. Where the groups were not collected, the kernel log decides, if it has both the
    "Default domain type" and "Adding to iommu group" of the cards: the first alone is printed even
    where no IOMMU works.
    """
    snapshot = examined.snapshot
    groups = snapshot[IOMMU_GROUPS].value
    if groups is None:
        return _by_log(examined)
    if groups.is_off and snapshot[IOMMU_GROUPS].is_complete:
        summary = "the IOMMU is off, so nothing is translated"
        return Finding("ok", summary, why=_why_off(examined))
    if not examined.cards:
        summary = "which groups are those of the cards is not known"
        return Finding("unknown", summary, why="`lspci -D` names the cards with their addresses.")
    return _judged(examined, groups)


def _by_log(examined: Examined) -> Finding:
    """Of this boot. The default is that of every group, but for what changed since."""
    log = examined.snapshot[KERNEL_LOG].or_empty
    own = {card.address for card in examined.cards}
    are_named = all(":" in address for address in own)  # else any device shows that it works
    joined = {
        shape["address"]: entry
        for entry in log.matching(_JOINED)
        if not entry.boot
        and (shape := _JOINED.search(entry.message))
        and (shape["address"] in own or not are_named)
    }
    domains = [entry for entry in log.matching(_DOMAIN) if not entry.boot]
    if not joined or not domains:
        return Finding("unknown", "the IOMMU groups were not collected", why=_SURER)
    lines = (domains[-1], *(joined.values() if are_named else list(joined.values())[:1]))
    evidence = tuple(Evidence(KERNEL_LOG.name, entry.line) for entry in lines)
    if "Translated" in domains[-1].message:
        return _translated(examined, "Translated, by the kernel log", evidence)
    if own == set(joined) and views.sees_all_driven(examined):
        summary = "the cards reach memory directly (Passthrough, by the kernel log)"
        return Finding("ok", summary, evidence, why=_SURER)
    return Finding("unknown", "how the IOMMU treats all cards is not known", evidence, why=_SURER)


def _why_off(examined: Examined) -> str:
    """Where passthrough is declared, and only an IOMMU could give it."""
    declared = examined.spec.kernel_args or ()
    seen = board.firmware(examined.snapshot)
    lacking = without_an_iommu(examined.catalog, seen, declared)
    if lacking:
        return lacking
    live = examined.snapshot[PROC_CMDLINE].or_empty.arguments
    is_left_off = leaves_intel_off(seen) and INTEL_ON not in (*declared, *live)
    return passthrough_note(declared, (*declared, *live), seen) if is_left_off else ""


def _judged(examined: Examined, groups: IommuGroups) -> Finding:
    snapshot = examined.snapshot
    found = [groups.by_address.get(card.address) for card in examined.cards]
    members = tuple(member for member in found if member)
    translated = tuple(member for member in members if member.type in _TRANSLATED)
    evidence = tuple(Evidence(IOMMU_GROUPS.name, one.line) for one in translated or members)
    if translated:
        kinds = " and ".join(sorted({member.type for member in translated}))
        return _translated(examined, kinds, evidence)
    granting = snapshot[P2P_READ].value
    missed = granting is not None and len(granting.gpus) > len(examined.cards)
    all_seen = views.sees_all_driven(examined) and not missed and None not in found
    if all_seen and all(member.type == "identity" for member in members):
        why = "" if views.sees_the_bus(examined) else _SURER
        return Finding("ok", "the cards reach memory directly (identity)", evidence, why=why)
    summary = "how the IOMMU treats the cards could not be read"
    return Finding("unknown", summary, evidence, why=_SURER)


def _translated(examined: Examined, kinds: str, evidence: tuple[Evidence, ...]) -> Finding:
    count = views.gpu_count(examined)
    if count == 1:
        return Finding("ok", "translated, and the only card has no peer to copy to", evidence)
    if count is None:
        return Finding("unknown", "translated, and how many cards there are is not known", evidence)
    spared = _spared(examined)
    found = Finding(
        "info" if spared else "fail",
        f"the IOMMU translates what the cards send ({kinds}){spared}",
        (*evidence, *peers.rows(examined.snapshot)),
        why=_WHY,
        fix=None if spared else kernel_arguments.passthrough_fix(examined),
    )
    return proof.outranked(examined, found, costs=_SLOWER)


def _spared(examined: Examined) -> str:
    """Why no copy between cards meets the IOMMU, or nothing. P2P not known of counts as granted."""
    snapshot = examined.snapshot
    granting = snapshot[P2P_READ].or_empty
    pairs = peers.pairs(examined)
    is_all = pairs and views.gpu_count(examined) in {None, len(examined.cards)}
    if not is_all or 0 < len(granting.gpus) < len(examined.cards):
        return ""
    knows_grants, knows_links = snapshot[P2P_READ].is_complete, snapshot[TOPOLOGY].is_complete
    is_for_own = peers.is_for_own_modules(examined)
    granted = [one for one in pairs if is_for_own or not (knows_grants and one.is_granted is False)]
    if not granted:
        return ", but no P2P is granted"
    over_pcie = [
        one for one in granted if not ((knows_links and one.has_nvlink) or _is_of_a_board(one))
    ]
    if not over_pcie:
        return ", but all P2P goes over NVLink"
    has_none = not is_for_own and all(
        one.is_granted is None and peers.offers_none(one) for one in over_pcie
    )
    return ", but these cards have no P2P over PCIe" if has_none else ""


def _is_of_a_board(pair: Pair) -> bool:
    """Cards of one baseboard, whose links were not collected."""
    models = (pair.one.model, pair.other.model)
    return pair.link is None and all(model and model.p2p == "nvlink" for model in models)


@Check("acs.in_vm", needs=(BOOT, PCI, LSPCI))
def in_vm(examined: Examined) -> Finding:
    """The ACS that a virtual machine cannot see.

    Asks systemd-detect-virt, and looks for devices that only hypervisors have. In a virtual machine
    ACS and IOMMU between the cards are the host's: this check is then unknown, never ok, and so is
    acs.path.
    """
    boot = examined.snapshot[BOOT].value
    kind = boot.virtualization if boot else None
    evidence = (Evidence(BOOT.name, kind),) if kind else ()
    is_virtual = pcie.is_virtual_machine(examined.snapshot)
    if is_virtual is False:
        summary = "this is no virtual machine: its ports are the real ones"
        return Finding("ok", summary, evidence)
    if is_virtual is None:
        summary = "whether this is a virtual machine is not known"
        return Finding("unknown", summary)
    return Finding(
        "unknown",
        "a virtual machine: the ACS and the IOMMU that matter are the hypervisor's",
        evidence,
        why="Inside a guest these bits can be neither seen nor changed. Between cards that are "
        "passed through, the host's translation and ACS decide whether P2P works: look there, "
        "and let `rigops preflight` measure it here.",
    )


@Check("iommu.present", needs=(BOOT, PCI, IOMMU_GROUPS, FIRMWARE, KERNEL_LOG, LSPCI))
def iommu_present(examined: Examined) -> Finding:
    """Whether an IOMMU is active.

    Counts /sys/kernel/iommu_groups. Both answers are normal; with an IOMMU, iommu.mode and acs.path
    decide whether it is between the cards. The kernel's log line about the default domain does not
    count: it is printed without a working IOMMU as well.
    """
    groups = examined.snapshot[IOMMU_GROUPS].value
    if groups is None:
        return Finding("unknown", "the IOMMU groups were not collected")
    if groups.members:
        count = len({member.group for member in groups.members})
        seen = Evidence(IOMMU_GROUPS.name, groups.members[0].line)
        return Finding("info", f"an IOMMU is active, with {count} groups", (seen,))
    if groups.is_off and examined.snapshot[IOMMU_GROUPS].is_complete:
        return Finding("info", "no IOMMU is active: there is no group", why=_how_to(examined))
    return Finding("unknown", "the IOMMU groups could not be read")


def _how_to(examined: Examined) -> str:
    """No fault: only virtual machines that get cards need one."""
    seen = board.firmware(examined.snapshot)
    if pcie.is_virtual_machine(examined.snapshot):
        return ""
    if seen.offers_iommu is False:
        return f"{_ONLY_FOR_GUESTS}: {board.steps(examined, 'iommu')}"
    if seen.offers_iommu and leaves_intel_off(seen):
        return (
            f"{_ONLY_FOR_GUESTS}: this kernel leaves Intel's off unless the kernel line has "
            f"{INTEL_ON}; the firmware offers it"
        )
    return ""
