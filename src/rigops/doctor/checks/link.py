"""The PCIe links of cards and NVMe disks: lanes, and the speed of cards under load."""

from __future__ import annotations

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Status, fix_by_hand
from rigops.doctor.views import pcie
from rigops.doctor.views.cards import judge_answering
from rigops.doctor.views.pcie import Lanes
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.pci import PciFunction
from rigops.probe.smi.report import SmiGpu

_NVME = 0x0108  # class on the bus
_FEW_LANES = 4
_BUSY_PERCENT = 50
_FULL_CLOCK = 0.7  # of the highest: below that even P0 may be waiting
_SAVING = (
    "A link that is idle runs at 2.5 GT/s to save power, so its speed says nothing now: "
    "preflight looks at it while bytes move. Lanes do not change with the load."
)
_NARROW = (
    "The card trained fewer lanes than it and its slot have. That is a bad contact, a riser or a "
    "cable, or a slot that shares its lanes with an M.2 or another slot. Copies between cards get "
    "slower in the same proportion."
)

_SLOT_NOT_READ = (
    "Boards with two slots for cards often split sixteen lanes in two halves. The lanes of this "
    "slot were not read, so missing lanes cannot be seen: `lspci -vvv`, as root, shows it. "
)
_IN_A_GUEST = "A virtual machine does not see the slot: let doctor look at the host that has it. "


@Check("pci.width", needs=(BOOT, PCI, LSPCI, SMI), fixes=("hands",))
def width(examined: Examined) -> list[Finding]:
    """Every card has all its lanes.

    Compares the lanes of the link with those of the card and of the port above it (sysfs, lspci;
    where neither was read, the kernel's log at boot of a link that limits its card). Fewer
    than both could have is a warning, fewer because the slot has no more is information, as it is
    in a virtual machine, whose ports are made up. Where nothing tells the lanes of card and slot, a
    width that lspci calls (downgraded) is fewer than the card has. An impossible width, such as
    x32, is ignored. The speed is not judged: an idle link runs at 2.5 GT/s, and lspci calls that
    (downgraded).
    """
    return judge_answering(
        examined,
        lambda card: _width(card, pcie.lanes_of(examined, card)),
        "link",
        Finding("ok", "every card has all the lanes that it and its slot have", why=_SAVING),
    )


def _width(card: Card, link: Lanes) -> Finding:
    status, summary, why = _opinion(link)
    return Finding(
        status,
        f"{card.name}: {summary}",
        link.evidence,
        subject=card.subject,
        why=why,
        fix=fix_by_hand(
            "power off and reseat the card and its riser; try another riser or slot; look in "
            "the board's manual for an M.2 or a slot that takes lanes from this one, and in the "
            "BIOS for the bifurcation of this slot"
        )
        if status == "warn"
        else None,
    )


def _opinion(link: Lanes) -> tuple[Status, str, str]:
    if link.now is None or link.own is None:
        return _by_word_of_lspci(link)
    has = f"x{link.now}"
    could = link.expected or link.own
    if link.now >= could == link.own:
        return "ok", f"{has}, all of them", _SAVING
    if link.now >= could:
        why = f"The slot, or what it shares its lanes with, offers x{link.port} by design. "
        return "info", f"{has} of x{link.own}, all that its slot gives", why + _SAVING
    if link.is_virtual:
        return "info", f"{has} of x{link.own}, in a virtual machine", _IN_A_GUEST + _SAVING
    if link.expected is None and link.now > _FEW_LANES:
        summary = f"{has} of x{link.own}, and its slot's lanes are not known"
        return "info", summary, _SLOT_NOT_READ + _SAVING
    return "warn", f"{has} where x{could} is possible", _NARROW


def _by_word_of_lspci(link: Lanes) -> tuple[Status, str, str]:
    if link.now is None or link.port or not link.is_narrower:
        return "unknown", "how many lanes its link has could not be read", ""
    summary = f"x{link.now}, and it could have more lanes (lspci: downgraded)"
    if link.is_virtual or link.now > _FEW_LANES:
        return "info", summary, (_IN_A_GUEST if link.is_virtual else _SLOT_NOT_READ) + _SAVING
    return "warn", summary, _NARROW


@Check("nvme.link", needs=(BOOT, PCI), needs_gpu=False, fixes=("hands",))
def nvme_link(examined: Examined) -> Finding | list[Finding]:
    """Every NVMe disk has all its lanes.

    Compares the lanes of its link with those of the disk and of the port above it (sysfs). Fewer
    than both could have is a warning; fewer because the slot has no more, or where the port is not
    known, is information, as it is in a virtual machine.
    """
    listed = examined.snapshot[PCI].value
    if listed is None:
        return Finding("unknown", "the links of NVMe disks were not collected")
    disks = [one for one in listed.functions if one.pci_class >> 8 == _NVME]
    if not disks:
        return Finding("skipped", "no NVMe disk is on the bus")
    in_a_guest = examined.snapshot[BOOT].or_empty.is_virtual_machine is True
    found = [
        _nvme_link(disk, listed.by_address.get(_place_above(disk)), in_a_guest=in_a_guest)
        for disk in disks
    ]
    if all(one.status == "ok" for one in found):
        cited = tuple(evidence for one in found for evidence in one.evidence)
        return Finding("ok", "every NVMe disk has all its lanes", cited)
    return [one for one in found if one.status != "ok"]


def _place_above(function: PciFunction) -> str:
    return (function.path or "").rpartition("/")[0].rpartition("/")[2]


def _nvme_link(disk: PciFunction, above: PciFunction | None, *, in_a_guest: bool) -> Finding:
    now, own = pcie.lanes_now(disk), pcie.most_lanes(disk)
    slot = pcie.most_lanes(above)
    cited = tuple(Evidence(PCI.name, one.line) for one in (disk, above) if one)
    if now is None or own is None:
        text = "how many lanes the disk has could not be read"
        return Finding("unknown", text, cited, subject=disk.address)
    if now >= own:
        return Finding("ok", f"x{now}, all of them", cited, subject=disk.address)
    if slot is None or now >= slot or in_a_guest:
        text = f"the disk has x{now} of x{own}, and its slot is not known to give more"
        return Finding("info", text, cited, subject=disk.address)
    return Finding(
        "warn",
        f"the disk has x{now} where x{min(own, slot)} is possible",
        cited,
        subject=disk.address,
        why="Slots for M.2 often share lanes with a slot for cards or with SATA ports, and a disk "
        "that sits badly trains fewer as well. Data sets and checkpoints load as much slower.",
        fix=fix_by_hand(
            "power off and reseat the disk; look in the board's manual for the slot that takes "
            "lanes from this one, and in the BIOS for its lanes"
        ),
    )


@Check("pci.gen.load", fixes=("hands",))
def generation(examined: Examined) -> Finding | list[Finding]:
    """Links run at full speed under load.

    Looks at the generation that nvidia-smi shows only for cards that work right now: idle cards
    slow their links down. Otherwise preflight judges it while bytes move.
    """
    driven = [(card, card.smi) for card in examined.cards if card.smi]
    busy = [(card, smi) for card, smi in driven if _is_busy(smi)]
    slow = [
        _slow(card, smi)
        for card, smi in busy
        if smi.generation and smi.generation_max and smi.generation < smi.generation_max
    ]
    if slow:
        return slow
    all_busy = bool(busy) and len(busy) == views.gpu_count(examined)
    if all_busy and all(smi.generation and smi.generation_max for _, smi in busy):
        return Finding("ok", "under load every link runs at its full speed")
    return Finding("skipped", "judged by preflight, while bytes move", why=_SAVING)


def _is_busy(smi: SmiGpu) -> bool:
    if (smi.utilization_percent or 0) >= _BUSY_PERCENT:
        return True
    clock, highest = smi.mhz_sm or smi.mhz_graphics, smi.mhz_max_sm or smi.mhz_max_graphics
    is_fast = bool(clock and highest) and (clock or 0) >= _FULL_CLOCK * (highest or 0)
    return smi.performance_state == "P0" and is_fast


def _slow(card: Card, smi: SmiGpu) -> Finding:
    return Finding(
        "warn",
        f"{card.name}: works hard on a generation {smi.generation} link, and generation "
        f"{smi.generation_max} is possible",
        (Evidence(SMI.name, smi.line),) if smi.line else (),
        subject=card.subject,
        why="A link that stays slow under load was limited in the BIOS, or fell back because of "
        "errors on a riser or a cable.",
        fix=fix_by_hand(
            "set the slot's PCIe speed to Auto or to its generation in the BIOS; if it falls "
            "back again, use a shorter or better riser, and see pci.aer.corr"
        ),
    )
