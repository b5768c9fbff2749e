"""BAR1: the window through which others reach a card's memory."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.line_search import texts_of
from rigops.doctor.searched import is_in
from rigops.doctor.views import board, pcie, peers, proof
from rigops.doctor.views.cards import judge_answering
from rigops.numbers import whole
from rigops.probe import address as addresses
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_SMALL: Final = 256 * _MIB
_NEARLY: Final = 0.9  # a card reports less memory than it has: some of it is its own
_UNITS = {"MB": _MIB, "GB": _GIB, "TB": _GIB << 10}
_NO_SPACE = re.compile(r"BAR[0-5] is 0M @ 0x0 \(PCI:(?P<address>[0-9a-fA-F:.]{7,20})\)")
# Of the card's own memory: neither I/O ports nor its ROM, nor what virtual functions would need.
_ASSIGNED = re.compile(
    r"^[a-z0-9_-]{1,40} (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): BAR (?P<bar>[0-5])"
    r"(?: \[mem [^\]]{1,60}\]: (?P<now>assigned|can't assign|failed to assign)|"
    r": (?P<then>assigned|no space for|can't assign|failed to assign) \[mem )"
)
_VENDOR = re.compile(r"^pci (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0): \[10de:")
_NO_WINDOW = re.compile(r"<ignored>|<unassigned>")
_OLD_VBIOS = (
    "A VBIOS whose sizes end at 256 MB (bar1.capability) needs the maker's VBIOS update first"
)
_GUEST = (
    r"Hypervisor detected|DMI: (?:QEMU|VMware|Xen|Red Hat KVM)|Hardware name: (?:QEMU|VMware|Xen)"
    r"|Standard PC \(|QEMU Virtual|VMware Virtual|@[a-z0-9-]{0,20}(?:vm|guest)[0-9]{0,3}:"
    r"|(?i:\b(?:in|inside|on|of) (?:the|a|my|each|every) (?:\w{3,8} )?(?:vm|guest|virtual "
    r"machine)\b)"
)
_MORE_SPACE = (
    "in a virtual machine: give it UEFI firmware and more 64-bit address space than all its cards "
    "have memory: QEMU, libvirt, Proxmox: q35 with OVMF, `-cpu host,host-phys-bits=on` and "
    "`-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144` (1048576 for several large cards); ESXi: "
    "EFI, pciPassthru.use64bitMMIO = TRUE and pciPassthru.64bitMMIOSizeGB"
)
_REALLOC = "Where it still has no room, try the kernel argument pci=realloc=on"
_WHY_NO_ROOM = "Without this window the driver cannot start the card: the firmware found no room."
_WHY_SMALL = (
    "P2P over PCIe in the way that drivers of today do it maps the whole memory of a card into its "
    "BAR1. A window of 256 MiB is the normal default and all that is needed without it."
)


@dataclass(frozen=True)
class _Window:
    """Bytes: None where not reported, 0 where the firmware found no room."""

    size: int | None
    memory: int | None
    evidence: tuple[Evidence, ...]

    @property
    def covers(self) -> bool:
        return bool(self.size and self.memory and self.size >= _NEARLY * self.memory)


@Check(
    "bar1.size",
    needs=(BOOT, PCI, FIRMWARE, KERNEL_LOG, SMI, *proof.NEEDS),
    fixes=("bios", "hands"),
    cause_rank=94,
)
def size(examined: Examined) -> list[Finding]:
    """BAR1 is large enough.

    Reads the size of each card's BAR1 (sysfs, lspci, nvidia-smi) and compares it with the memory of
    the card. Less than that is a warning where `p2p` is required and no preflight has passed for
    the present state, a failure where that is required of `driver_modules`, and information
    otherwise: 256 MiB is a normal default. A BAR1 without any room is a failure, since the driver
    cannot start such a card; so is one with `can't assign; no space` in the kernel log of this
    boot, unless it was assigned later.
    """
    return judge_answering(
        examined,
        lambda card: _judge(examined, card),
        "BAR1",
        Finding("ok", "every card's whole memory is in its BAR1"),
    )


@once
def more_space_of_a_guest(examined: Examined) -> Fix | None:
    """A virtual machine gets its address space from its host, and has no setup of its own."""
    snapshot = examined.snapshot
    is_guest = pcie.is_virtual_machine(snapshot) or (
        snapshot.bundle.paste is not None and is_in(_GUEST, texts_of(snapshot))
    )
    return fix_by_hand(_MORE_SPACE) if is_guest else None


@once
def without_room(examined: Examined) -> dict[str, list[LogLine]]:
    """By the address of a card: what the kernel and the driver say of it in this boot."""
    snapshot = examined.snapshot
    log = snapshot[KERNEL_LOG].or_empty
    last: dict[tuple[str, str], tuple[str, LogLine]] = {}
    for entry in log.matching(_ASSIGNED):
        shape = _ASSIGNED.search(entry.message)
        if shape and not entry.boot:
            state = shape["now"] or shape["then"]
            last[shape["address"], shape["bar"]] = (state, entry)
    cards = {
        shape["address"] for one in log.matching(_VENDOR) if (shape := _VENDOR.search(one.message))
    }
    cards |= {one.address for one in snapshot[PCI].or_empty.nvidia_gpus}
    cards |= {one.address for one in snapshot[LSPCI].or_empty.nvidia_gpus}
    found: dict[str, list[LogLine]] = {}
    for (address, _), (state, entry) in last.items():
        if state != "assigned" and address in cards:
            found.setdefault(address, []).append(entry)
    for entry in log.matching(_NO_SPACE):
        shape = _NO_SPACE.search(entry.message)
        named = addresses.normal(shape["address"]) if shape else None
        if named and not entry.boot:
            found.setdefault(named, []).append(entry)
    return found


def _judge(examined: Examined, card: Card) -> Finding:
    window = _window(examined, card)
    status, summary, why = _opinion(examined, window)
    steps = board.steps(examined, "above-4g", "resizable-bar")
    more = _OLD_VBIOS if window.size else f"{_REALLOC}. {_OLD_VBIOS}"
    in_the_setup = Fix(kind="bios", text=f"{steps}. {more}")
    in_a_guest = more_space_of_a_guest(examined) if window.size == 0 else None
    found = Finding(
        status,
        f"{card.name}: {summary}",
        window.evidence,
        subject=card.subject,
        why=why,
        fix=(in_a_guest or in_the_setup) if status in {"fail", "warn"} else None,
    )
    return proof.outranked(examined, found, costs=why) if window.size else found


def _opinion(examined: Examined, window: _Window) -> tuple[Status, str, str]:
    if window.size == 0:
        return "fail", "one of its windows (BAR) has no room in the address space", _WHY_NO_ROOM
    if window.size is None:
        return "unknown", "its BAR1 could not be read", ""
    size = window.size
    has = f"BAR1 of {f'{size // _GIB} GiB' if size >= _GIB else f'{size // _MIB} MiB'}"
    if window.covers:
        return "ok", has, ""
    if window.memory is None and window.size > _SMALL:
        return "info", f"{has}, and its memory is not known", ""
    if examined.spec.p2p == "required":
        status: Status = "fail" if peers.is_for_own_modules(examined) else "warn"
        return status, f"{has} is less than its memory, and P2P is declared", _WHY_SMALL
    return "info", f"{has}, less than its memory", _WHY_SMALL


def _window(examined: Examined, card: Card) -> _Window:
    region = card.lspci.bar1 if card.lspci else None
    has_none = region is not None and bool(_NO_WINDOW.search(region.line))
    refused = without_room(examined).get(card.address, [])
    # It may have been assigned after all, in lines that the log has lost.
    has_size = (region and region.size_bytes) or (card.function and card.function.bar1_bytes)
    by_driver = any(_NO_SPACE.search(entry.message) for entry in refused)
    has_none = has_none or bool(refused and (by_driver or not has_size))
    sizes = [
        card.function.bar1_bytes if card.function else None,
        0 if has_none else region.size_bytes if region else None,
        card.smi.bar1_total_mib * _MIB if card.smi and card.smi.bar1_total_mib else None,
    ]
    evidence = (
        [Evidence(KERNEL_LOG.name, entry.line) for entry in refused]
        + ([Evidence(LSPCI.name, region.line)] if region else [])
        + ([Evidence(PCI.name, card.function.line)] if card.function else [])
        + ([Evidence(SMI.name, card.smi.line)] if card.smi and card.smi.line else [])
    )
    known = [one for one in sizes if one is not None and one >= 0]
    return _Window(min(known, default=None), _memory(card), tuple(evidence))


def _memory(card: Card) -> int | None:
    if card.smi and card.smi.memory_total_mib:
        return card.smi.memory_total_mib * _MIB
    return card.model.memory_gib * _GIB if card.model else None


@Check("bar1.capability")
def capability(examined: Examined) -> list[Finding]:
    """BAR1 can be made large enough.

    Reads the sizes that lspci lists as Physical Resizable BAR. Where they end below the memory of
    the card, no BIOS setting makes BAR1 large, and a VBIOS update may.
    """
    judged = [(card, _can_cover(card)) for card in examined.cards]
    small = [_limited(card) for card, can in judged if can is False]
    unreadable = [card.address for card, can in judged if can is None]
    if unreadable or not judged or not views.sees_the_bus(examined):
        who = ", ".join(unreadable) or "all cards"
        summary = f"what sizes of BAR1 {who} can have could not be read (lspci, as root)"
        small.append(Finding("unknown", summary))
    return small or [Finding("ok", "every card can have its whole memory in BAR1")]


def _can_cover(card: Card) -> bool | None:
    listed, memory = card.lspci, _memory(card)
    if listed is None:
        return None
    sizes = [_bytes(word) for word in listed.resizable_bar_sizes]
    now = listed.bar1.size_bytes if listed.bar1 else None
    largest = max([*sizes, now or 0])
    if memory and largest >= _NEARLY * memory:
        return True
    if not sizes and not listed.lists_all:
        return None
    return False if memory or largest <= _SMALL else None


def _bytes(word: str) -> int:
    """`256MB`: what is no such word counts as nothing."""
    number, unit = word[:-2], word[-2:]
    return (whole(number) or 0) * _UNITS.get(unit, 0)


def _limited(card: Card) -> Finding:
    listed = card.lspci
    line = listed.resizable_bar_line if listed else ""
    return Finding(
        "info",
        f"{card.name}: its VBIOS offers no BAR1 as large as its memory",
        (Evidence(LSPCI.name, line),) if line else (),
        subject=card.subject,
        why="Cards before the RTX 30 have no resizable BAR, and early RTX 30 cards need a VBIOS "
        "update from their maker. It matters for P2P over PCIe only.",
    )
