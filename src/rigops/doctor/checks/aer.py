"""Errors of the cards' PCIe links: counted since the machine started, or logged by the kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Status, fix_by_hand
from rigops.doctor.views import kernel_logs, link_errors, pcie
from rigops.doctor.views.link_errors import LoggedErrors
from rigops.probe.sections.aer import SECTION as AER
from rigops.probe.sections.aer import AerDevice, Kind
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

_HANDFUL: Final = 10  # at start, or a replay timer that ran out once in a while
_WARN_PER_MINUTE: Final = 1.0
_FAIL_PER_MINUTE: Final = 32.0
_CORRECTED: Final[frozenset[Kind]] = frozenset({"correctable"})
_UNCORRECTED: Final[frozenset[Kind]] = frozenset({"nonfatal", "fatal"})
_CONTROLS = re.compile(r"_OSC: OS now controls \[")
WHY_CORRECTED: Final = (
    "Each of these was repaired by sending again, which costs speed. So many mean that the signal "
    "is poor: a riser or a cable that is too long or loose, a dirty contact, or a link that is "
    "faster than its riser was made for."
)
WHY_UNCORRECTED: Final = (
    "The link lost something that could not be sent again. This is how cards fall off the bus."
)
_FEW: Final = (
    "a few are harmless. If more come: replay timers alone (Timeout, Rollover) run out with power "
    "saving of the link, and `pcie_aspm=off` on the kernel command line ends them; RxErr, BadTLP "
    "and BadDLLP are a poor signal: reseat card and riser, one PCIe generation less in the BIOS"
)
_NOT_KNOWN = "; whose link that is, is not known"
_OF_OTHERS = ", which is no card's link"
_WHY_OF_OTHERS = "It is no sign of a fault of the cards."
_LOOK = "find with `lspci -D -t` the devices below that port. If it is a card: "
SEEK: Final = (
    "power off and reseat the card and its riser, try a shorter or better riser, and set the PCIe "
    "speed of this slot one generation lower in the BIOS; then see whether the counter still grows"
)


@Check(
    "pci.aer.corr",
    needs=(PROC_CMDLINE, BOOT, PCI, AER, KERNEL_LOG_PREVIOUS, KERNEL_LOG, LSPCI),
    fixes=("hands",),
)
def corrected(examined: Examined) -> Finding | list[Finding]:
    """The links correct few errors.

    Reads aer_dev_correctable of each card and of the ports above it. The counters start with the
    machine: more than one error a minute since then is a warning, more than 32 a failure. A few,
    such as a replay timer that ran out, are normal. Zeros prove nothing with pci=noaer, which turns
    them off. For the boot before, and where there are no counters, reads `PCIe Bus Error:
    severity=Corrected` in the kernel logs and judges the rate while they came, over ten minutes at
    least; three within two seconds, where a paste has hardly more, are a warning. Errors of other
    devices do not count; where the ports above the cards are not known, the finding says so and is
    no failure.
    """
    read = {one.address for one in examined.snapshot[AER].or_empty.devices}
    counted = _counted(examined, _CORRECTED)
    if not counted:
        # A root port also counts what the devices below it report: that counts where they do not.
        counted = _counted(examined, frozenset({"below"}))
    uptime = examined.snapshot[BOOT].or_empty.uptime_s
    found = [
        _corrected(subject, devices, uptime)
        for subject, devices in _by_subject(examined, counted).items()
    ]
    is_pasted = examined.snapshot.bundle.paste is not None
    found += [
        replace(one, fix=fix_by_hand(_FEW)) if is_pasted and one.status == "info" else one
        for one in map(_logged_corrected, link_errors.logged(examined, "corrected", read))
    ]
    return _with_the_rest(examined, found, _CORRECTED, "no link has counted a corrected error")


def _logged_corrected(one: LoggedErrors) -> Finding:
    status: Status = "info"
    if one.count >= _HANDFUL and one.per_minute > _WARN_PER_MINUTE:
        status = "fail" if one.per_minute > _FAIL_PER_MINUTE else "warn"
    elif one.is_burst:
        status = "warn"
    return _logged(one, "corrected", status, WHY_CORRECTED if status != "info" else "")


def _logged(one: LoggedErrors, kind: str, status: Status, why: str) -> Finding:
    about, fix = "", fix_by_hand(SEEK)
    if one.subject is None:
        status, about, why = "info", _OF_OTHERS, _WHY_OF_OTHERS
    elif not one.subject:
        about, fix = _NOT_KNOWN, fix_by_hand(_LOOK + SEEK)
    # Errors that are over, or may be another device's, are no failure.
    over = one.is_previous and kind == "corrected"
    if status == "fail" and (over or not one.subject):
        status = "warn"
    return Finding(
        status,
        ("" if one.is_all else "at least ")
        + f"{_errors(one.count, kind)} at {one.where}{one.names}, by the kernel log"
        + (" of the previous boot" if one.is_previous else "")
        + about,
        one.evidence,
        subject=one.subject or HOST,
        why=why,
        fix=None if status == "info" else fix,
        data={**one.data, "devices": list(dict.fromkeys(each.address for each in one.errors))},
    )


def _with_the_rest(
    examined: Examined, found: list[Finding], kinds: Collection[Kind], summary: str
) -> list[Finding]:
    """Errors of other devices alone leave the question open how the cards' links are."""
    if any(one.why != _WHY_OF_OTHERS for one in found) or (
        found and examined.snapshot.bundle.paste
    ):
        return found
    return [*found, _clean(examined, kinds, summary)]


def _corrected(subject: str, devices: Sequence[AerDevice], uptime: float | None) -> Finding:
    most = max(one.total for one in devices)
    status, words = rate(most, uptime)
    return Finding(
        status,
        f"{_errors(most, 'corrected')} at {_where(devices)}{words}",
        _evidence(devices),
        subject=subject,
        why="A few are normal: links train, and timers run out under load."
        if status == "info"
        else WHY_CORRECTED,
        fix=fix_by_hand(SEEK) if status in {"fail", "warn"} else None,
        data=_devices(devices),
    )


def rate(most: int, uptime: float | None) -> tuple[Status, str]:
    if most < _HANDFUL:
        return "info", " since the start"
    if not uptime:
        return "unknown", ", and since when is not known"
    per_minute = most * 60 / uptime
    words = f", {per_minute:.1f} a minute since the start"
    if per_minute > _FAIL_PER_MINUTE:
        return "fail", words
    return ("warn" if per_minute > _WARN_PER_MINUTE else "info"), words


@Check(
    "pci.aer.uncorr",
    needs=(PROC_CMDLINE, PCI, AER, KERNEL_LOG_PREVIOUS, KERNEL_LOG, LSPCI),
    fixes=("hands",),
)
def uncorrected(examined: Examined) -> Finding | list[Finding]:
    """No link has lost anything.

    Reads aer_dev_nonfatal and aer_dev_fatal of each card and of the ports above it, and the kernel
    logs of this boot and of the one before for `PCIe Bus Error: severity=Uncorrected` and for
    errors that a port has contained (DPC). Any uncorrected error is a failure: it precedes a card
    that falls off the bus. Errors of other devices do not count; where the ports above the cards
    are not known, the finding says so and is a warning.
    """
    counted = _counted(examined, _UNCORRECTED)
    found = [
        Finding(
            "fail",
            f"{_errors(sum(one.total for one in devices), 'uncorrected')} at "
            f"{_where(devices)} since the start",
            _evidence(devices),
            subject=subject,
            why=WHY_UNCORRECTED,
            fix=fix_by_hand(SEEK),
            data=_devices(devices),
        )
        for subject, devices in _by_subject(examined, counted).items()
    ]
    told = {one.address for one in counted}
    found += [
        _logged(one, kind, "fail", WHY_UNCORRECTED)
        for kind, several in (
            ("fatal", link_errors.logged(examined, "fatal", told)),
            ("uncorrected", link_errors.logged(examined, "nonfatal", told)),
        )
        for one in several
    ]
    return _with_the_rest(examined, found, _UNCORRECTED, "no link has counted an uncorrected error")


def _counted(examined: Examined, kinds: Collection[Kind]) -> list[AerDevice]:
    devices = examined.snapshot[AER].or_empty.devices
    return [one for one in devices if one.kind in kinds and one.total]


def _clean(examined: Examined, kinds: Collection[Kind], summary: str) -> Finding:
    """Zeros prove something where every link was read and the kernel counts."""
    snapshot = examined.snapshot
    if snapshot.bundle.paste and kernel_logs.pasted_lines(snapshot):
        kind = "corrected" if kinds == _CORRECTED else "uncorrected"
        return kernel_logs.clean(snapshot, f"{kind} PCIe error")
    if snapshot[AER].value is None:
        late = snapshot[AER].timed_out
        summary = "the counters " + ("did not come in time" if late else "were not collected")
        return Finding("unknown", summary)
    blind = _blindness(examined)
    if blind:
        summary = "the kernel does not count these errors here, so that zeros prove nothing"
        return Finding("unknown", summary, (blind,))
    aer = snapshot[AER].or_empty
    if not aer.devices:
        summary = "the kernel has no counters for these links (a virtual machine, or AER is off)"
        return Finding("unknown", summary)
    read = {(one.address, one.kind) for one in aer.devices}
    # The cards, and the ports above them: an error is often counted at the other end.
    cards = [card.address for card in examined.cards]
    links = (*cards, *pcie.ports_above(snapshot, examined.cards))
    wanted = {(address, kind) for address in links for kind in kinds}
    is_complete = snapshot[AER].is_exhaustive and views.sees_the_bus(examined)
    if not wanted or not wanted <= read or not is_complete:
        return Finding("unknown", "not every link's counters were read")
    return Finding("ok", summary)


def _blindness(examined: Examined) -> Evidence | None:
    """Why the kernel does not count: its command line, or a firmware that counts itself."""
    snapshot = examined.snapshot
    if off := pcie.aer_is_off(snapshot):
        return Evidence(PROC_CMDLINE.name, off)
    entries = snapshot[KERNEL_LOG].or_empty.matching(_CONTROLS)
    if entries and not any(" AER" in entry.message for entry in entries):
        return Evidence(KERNEL_LOG.name, entries[0].line)
    return None


def _by_subject(examined: Examined, devices: Iterable[AerDevice]) -> dict[str, list[AerDevice]]:
    """A port's errors are those of the card below it, where only one is below."""
    below = pcie.subjects_below(examined)
    found: dict[str, list[AerDevice]] = {}
    for device in devices:
        cards = below.get(device.address, [])
        found.setdefault(cards[0] if len(cards) == 1 else HOST, []).append(device)
    return found


def _errors(count: int, kind: str) -> str:
    return f"1 {kind} error" if count == 1 else f"{count} {kind} errors"


def _where(devices: Iterable[AerDevice]) -> str:
    return ", ".join(dict.fromkeys(one.address for one in devices))


def _devices(devices: Iterable[AerDevice]) -> dict[str, object]:
    return {"devices": list(dict.fromkeys(one.address for one in devices))}


def _evidence(devices: Iterable[AerDevice]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(AER.name, line) for one in devices for line in (f"== {one.head}", *one.lines)
    )
