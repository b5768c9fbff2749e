"""Faults of the IOMMU: devices that reached for memory that was not theirs."""

from __future__ import annotations

from collections.abc import Sequence

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import board, kernel_arguments, kernel_logs
from rigops.doctor.views.kernel_logs import Owner, Which, owner_of
from rigops.probe.kernel_log.events import IommuFault, count
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.snapshot import HostSnapshot

_SHOWN = 3
_WHY_OF_MANY = (
    "A card reached for memory that the IOMMU does not let it reach: this is how copies from card "
    "to card break where the IOMMU translates, with hangs, wrong results and Xids in their wake."
)
_WHY_OF_ONE = (
    "The card reached for memory that the IOMMU does not let it reach. With no other card to copy "
    "to, this is its driver, the card, a riser or the BIOS; with iommu=pt it needs no translation."
)
_WHY_OF_OTHERS = (
    "Many devices do this now and then, with a fault of their firmware or driver. It says nothing "
    "about the GPUs and copies between them."
)
_REMAINS = (
    "iommu=pt is live and does not stop it: update the BIOS, clear ACS redirection between the "
    "cards (acs.path), try a driver that grants no P2P between these cards, and last switch the "
    "IOMMU off: amd_iommu=off or intel_iommu=off, or {bios}"
)
_OF_OTHERS = (
    "update that device's firmware and the BIOS, and see whether it still does it; nothing is to "
    "be done about the GPUs"
)
_OF_NOBODY = (
    "see with `lspci -D` which device that is: a GPU needs iommu=pt, any other device new firmware"
)

Fault = tuple["Which", "IommuFault"]


@Check(
    "iommu.fault",
    needs_gpu=False,
    needs=(
        *views.COUNTS_CARDS,
        PROC_CMDLINE,
        IOMMU_GROUPS,
        BOOTLOADER,
        FIRMWARE,
        RIGOPS_STATE,
        KERNEL_LOG_PREVIOUS,
        KERNEL_LOG,
    ),
    fixes=("apply+reboot", "hands"),
    cause_rank=90,
)
def fault(examined: Examined) -> Finding | list[Finding]:
    """The IOMMU has not stopped a card.

    Reads the kernel log of this boot and of the one before for page faults of the IOMMU: `AMD-Vi:
    Event logged [IO_PAGE_FAULT …]` and `DMAR: [DMA Write …] Request device …`. Each names a device.
    An NVIDIA card among them is a failure: copies between cards break like this where the IOMMU
    translates. Faults of disks, network and RAID cards are a warning about them and prove nothing
    about P2P.
    """
    snapshot = examined.snapshot
    by_device: dict[str | None, list[Fault]] = {}
    for which, one in kernel_logs.of_both_boots(snapshot, lambda log: log.iommu_faults):
        by_device.setdefault(one.address, []).append((which, one))
    if views.has_no_gpu(examined) and not any(
        address and owner_of(examined, address).is_nvidia for address in by_device
    ):
        return Finding("skipped", views.NO_GPU)
    found = [_device(examined, address, faults) for address, faults in by_device.items()]
    if not found or kernel_logs.read(snapshot, "current").gap:
        found.append(kernel_logs.clean(snapshot, "IOMMU fault"))
    return found


def _device(examined: Examined, address: str | None, faults: Sequence[Fault]) -> Finding:
    owner = owner_of(examined, address) if address else Owner()
    evidence = _evidence(faults)
    boots = kernel_logs.SOURCES
    number = sum(count(one.entry for which, one in faults if which == boot) for boot in boots)
    times = f"{number} times" if number > 1 else "once"
    where = "" if any(which == "current" for which, _ in faults) else " in the previous boot"
    if owner.is_nvidia:
        return _of_nvidia(examined, address, f"{times}{where}", faults)
    name = owner.name or "a device that is not known here"
    at = f" at {address}" if address else ""
    return Finding(
        "warn",
        f"the IOMMU stopped {name}{at} {times}{where}",
        evidence,
        subject=f"/sys/bus/pci/devices/{address}" if address else HOST,
        why=_WHY_OF_OTHERS if owner.name else "",
        fix=fix_by_hand(_OF_OTHERS if owner.name else _OF_NOBODY),
        data=kernel_logs.last_of(one.entry for _, one in faults),
    )


def _of_nvidia(
    examined: Examined, address: str | None, times: str, faults: Sequence[Fault]
) -> Finding:
    is_over = _is_over(examined.snapshot, faults)
    status: Status = "info" if is_over else "fail"
    summary = f"the IOMMU stopped this card {times}"
    card = f"{address.rpartition('.')[0]}.0" if address else "unknown"
    return Finding(
        status,
        summary + ("; with iommu=pt, live now, no more" if is_over else ""),
        _evidence(faults),
        subject=f"gpu {card}",
        why=_WHY_OF_ONE if views.gpu_count(examined) == 1 else _WHY_OF_MANY,
        fix=None if is_over else _fix(examined, faults),
        data=kernel_logs.last_of(one.entry for _, one in faults),
    )


def _is_over(snapshot: HostSnapshot, faults: Sequence[Fault]) -> bool:
    """It was in the previous boot only, and since then the cause has been removed."""
    return (
        all(which == "previous" for which, _ in faults)
        and kernel_arguments.is_asked_for(snapshot)
        and _reaches_directly(snapshot, faults) is True
        and not kernel_logs.read(snapshot, "current").gap
    )


def _reaches_directly(snapshot: HostSnapshot, faults: Sequence[Fault]) -> bool | None:
    """In this boot; None: unknown."""
    groups = snapshot[IOMMU_GROUPS].value
    members = [groups.by_address.get(one.address) for _, one in faults if groups and one.address]
    if not members or None in members:
        return None
    return all(member is not None and member.type == "identity" for member in members)


def _fix(examined: Examined, faults: Sequence[Fault]) -> Fix:
    direct = _reaches_directly(examined.snapshot, faults)
    if direct or (direct is None and kernel_arguments.is_asked_for(examined.snapshot)):
        off = board.steps(examined, "iommu", turn="off")
        return fix_by_hand(_REMAINS.format(bios=off))
    return kernel_arguments.passthrough_fix(examined)


def _evidence(faults: Sequence[Fault]) -> tuple[Evidence, ...]:
    return kernel_logs.cited(((which, one.entry) for which, one in faults), _SHOWN)
