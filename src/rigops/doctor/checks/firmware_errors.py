"""Hardware errors that the firmware reports, and whether the kernel sees those of PCIe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import kernel_logs, pcie
from rigops.doctor.views.kernel_logs import Which, owner_of
from rigops.doctor.views.link_errors import knows_the_tree
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.snapshot import HostSnapshot

APEI = "pci.apei"

_SHOWN: Final = 6
# Without a number: what the firmware kept from the previous boot (BERT). Machine checks that the
# kernel itself decodes look much like it and are none of this.
_ERROR: Final = re.compile(
    r"^\{(?P<record>[0-9]{1,9})\}\[Hardware Error\]:|^BERT: Error records from previous boot|"
    r"^\[Hardware Error\]: +(?:event severity|device_id|section_type|port_type|aer_)"
)
_HEAD: Final = "Hardware error from APEI"
_DEVICE: Final = re.compile(
    r"device_id: (?P<address>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
_CARD: Final = re.compile(r"vendor_id: 0x10de\b")
_SEVERITY: Final = re.compile(r"event severity: (?P<severity>[a-z]{1,20})")
_GRAVE: Final = frozenset({"fatal", "recoverable"})
_CONTROLS: Final = re.compile(r"_OSC: OS now controls \[(?P<what>[^\]]{0,200})\]")
_NO_CONTROL: Final = re.compile(
    r"_OSC: (?:platform does not support \[[^\]]*\bAER\b|not requesting|platform retains|"
    r"OS assumes control|platform willing)|_OSC: .*_OSC failed|_OSC failed \("
)
_GUEST: Final = re.compile(r"^Hypervisor detected: (?!Xen)")  # Xen's own host says it too
_OF_THE_HOST: Final = "a virtual machine: the errors of PCIe links are seen by its host alone"
_WHY_OF_THE_HOST: Final = (
    "The hypervisor hands no errors of links on. Whether there are any is to be read on its host."
)
_Entry = tuple["Which", "LogLine"]


@Check("pci.apei", needs=(PCI, KERNEL_LOG_PREVIOUS, KERNEL_LOG, LSPCI), fixes=("hands",))
def apei(examined: Examined) -> list[Finding]:
    """The firmware reports no hardware errors.

    Reads the kernel logs of this boot and of the one before for `Hardware error from APEI Generic
    Hardware Error Source` and what follows it. None is healthy. Boards whose firmware handles PCIe
    errors itself report them here and not in the AER counters: each record names a device, and
    corrected errors are a warning. A port above one card counts as that card.
    """
    snapshot = examined.snapshot
    found = [_record(examined, entries) for entries in _by_device(snapshot).values()]
    if not found or kernel_logs.read(snapshot, "current").gap:
        found.append(kernel_logs.clean(snapshot, "firmware error (APEI)"))
    return found


def _by_device(snapshot: HostSnapshot) -> dict[str | None, list[_Entry]]:
    """A record is several lines with one number, of which one may name a device."""
    records: dict[tuple[str, int, str], list[_Entry]] = {}
    opened = 0
    for which, entry in kernel_logs.matching(snapshot, _ERROR):
        shape = _ERROR.match(entry.message)
        number = (shape and shape["record"]) or ""
        opened += _HEAD in entry.message
        records.setdefault((which, opened, number), []).append((which, entry))
    devices: dict[str | None, list[_Entry]] = {}
    for lines in records.values():
        named = next((found for _, one in lines if (found := _DEVICE.search(one.message))), None)
        devices.setdefault(named["address"].lower() if named else None, []).extend(lines)
    return devices


def _record(examined: Examined, entries: Sequence[_Entry]) -> Finding:
    named = next((found for _, one in entries if (found := _DEVICE.search(one.message))), None)
    address = named["address"].lower() if named else None
    below = pcie.subjects_below(examined).get(address or "", [])
    severities = {
        found["severity"] for _, one in entries if (found := _SEVERITY.search(one.message))
    }
    owner = owner_of(examined, address) if address else None
    grave = sorted(severities & _GRAVE)
    what = " and ".join(grave or sorted(severities)) or "hardware"
    name = f" of {owner.name or 'a device'} at {address}" if owner else ""
    is_cards = len(below) == 1 or (owner is not None and owner.is_nvidia)
    is_cards |= any(_CARD.search(one.message) for _, one in entries)
    is_open = bool(owner and not owner.name) and not is_cards and not knows_the_tree(examined)
    records = max(1, sum(_HEAD in one.message for _, one in entries))
    subject = HOST
    if len(below) == 1:
        (subject,) = below
    elif address and is_cards:
        subject = f"gpu {address}"
    elif address:
        subject = f"/sys/bus/pci/devices/{address}"
    return Finding(
        "fail" if grave and is_cards else "warn",
        f"the firmware reports {what} errors{name}"
        + (f", {records} times" if records > 1 else "")
        + ("" if any(which == "current" for which, _ in entries) else " (in the previous boot)")
        + ("; whose link that is, is not known" if is_open else ""),
        kernel_logs.cited(entries[:_SHOWN], _SHOWN),
        subject=subject,
        why="The firmware watches memory and PCIe links and reports what it has seen. Errors of "
        "a link come of a riser, a cable, a slot or too high a speed.",
        fix=fix_by_hand(
            "for a PCIe device reseat it, shorten or replace its riser, try another slot or "
            "one PCIe generation less in the BIOS; for memory test the modules one by one"
        ),
    )


@Check(
    "pci.aer.blind", needs=(PROC_CMDLINE, BOOT, KERNEL_LOG), fixes=("apply+reboot", "bios", "hands")
)
def blind(examined: Examined) -> Finding:
    """The kernel gets to see PCIe errors.

    Looks for pci=noaer on the running command line, and in the kernel log for what the firmware has
    handed over: `_OSC: OS now controls [… AER …]`. Without AER among it, or with noaer, error
    counters of zero prove nothing: noaer is a warning, a firmware that keeps the errors is
    information, as a virtual machine is, whose host has the real links. Where the log has no such
    line, this is unknown.
    """
    snapshot = examined.snapshot
    if off := pcie.aer_is_off(snapshot):
        return _off(examined, off)
    log = snapshot[KERNEL_LOG].value
    found = [
        (one, shape)
        for one in (log.matching(_CONTROLS) if log else ())
        if (shape := _CONTROLS.search(one.message))
    ]
    lacking = [one for one, shape in found if "AER" not in shape["what"].split()]
    refused = log.matching(_NO_CONTROL) if log else ()
    if lacking or (refused and not found):
        lines = (*lacking, *refused)
        if pcie.is_virtual_machine(snapshot) or (log and log.matching(_GUEST)):
            return Finding("info", _OF_THE_HOST, _cited(lines), why=_WHY_OF_THE_HOST)
        return _firmware_first(lines)
    if not found:
        gap = kernel_logs.read(snapshot, "current").gap
        why = f"the kernel log {gap}" if gap else "the kernel log has no _OSC line"
        return Finding(
            "unknown", f"whether the kernel gets errors of PCIe links is not known: {why}"
        )
    if snapshot[PROC_CMDLINE].value is None or not snapshot[PROC_CMDLINE].is_complete:
        return Finding("unknown", "whether pci=noaer hides errors is not known")
    evidence = (Evidence(KERNEL_LOG.name, found[0][0].line),)
    return Finding("ok", "the kernel gets the errors of PCIe links", evidence)


def _off(examined: Examined, argument: str) -> Finding:
    declared = examined.spec.kernel_args or ()
    by_hand = f"take {argument} out of the bootloader's configuration, and reboot"
    fix = fix_by_hand(by_hand)
    if argument in declared:
        fix = Fix(
            kind="apply+reboot",
            concern="kernel_args",
            declare={"kernel_args": [one for one in declared if one != argument]},
            text=f"`rigops apply` takes {argument} off the kernel command line and reboots",
            by_hand=by_hand,
        )
    return Finding(
        "warn",
        f"{argument} hides the errors of PCIe links",
        (Evidence(PROC_CMDLINE.name, argument),),
        why="It silences the messages, not the errors: a bad riser or slot stays unseen.",
        fix=fix,
    )


def _cited(lines: Sequence[LogLine]) -> tuple[Evidence, ...]:
    return tuple(Evidence(KERNEL_LOG.name, one.line) for one in lines[:_SHOWN])


def _firmware_first(lines: Sequence[LogLine]) -> Finding:
    return Finding(
        "info",
        "the firmware does not hand the errors of PCIe links to the kernel",
        _cited(lines),
        why="The kernel then counts none, so that counters of zero prove nothing.",
        fix=Fix(
            kind="bios",
            text="in the BIOS give PCIe error handling (AER, `Firmware First`, `OS native AER "
            "support`) to the operating system; pcie_ports=native on the kernel command line tries "
            "it without the BIOS",
        ),
    )
