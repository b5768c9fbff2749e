"""The firmware that runs on the card itself (GSP), when it stops answering the driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from rigops.catalog import lookup, versions
from rigops.catalog.model import Verdict
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Finding, Fix, fix_by_hand
from rigops.doctor.known_lines import explaining
from rigops.doctor.views import driver_state, kernel_logs
from rigops.doctor.views.cards import subject_of
from rigops.doctor.views.driver_advice import DriverAdvice, advise
from rigops.doctor.views.kernel_logs import Which
from rigops.probe.address import normal
from rigops.probe.kernel_log.events import Xid, count
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot

if TYPE_CHECKING:
    _Entry = tuple[Which, LogLine]

XIDS: Final = frozenset({119, 120})
_NOT_STARTED: Final = re.compile(
    r"NVRM: (?:GPU (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): )?"
    r"RmInitAdapter failed! \(0x62:"
)
_SHOWN: Final = 3
_WHY: Final = (
    "From Turing on much of the driver runs on the card, in its GSP firmware. Without its answer "
    "the card is dead to every program, and nvidia-smi often hangs."
)
_LOOK_FIRST: Final = "check power and PCIe errors of that card first (pci.aer.corr, pwr.budget)"
_OTHER_DRIVER: Final = "then try another driver branch (`rigops drivers` shows which are good)"
_SWITCH_OFF: Final = (
    "; with the proprietary modules GSP can be left out: "
    "`options nvidia NVreg_EnableGpuFirmware=0` in /etc/modprobe.d, `update-initramfs -u`, reboot"
)


@Check(
    "drv.gsp",
    needs_gpu=False,
    needs=(*views.COUNTS_CARDS, NVIDIA_VERSION, PACKAGES, KERNEL_LOG_PREVIOUS, KERNEL_LOG),
    fixes=("apply+reboot", "hands"),
    cause_rank=50,
)
def gsp(examined: Examined) -> Finding | list[Finding]:
    """The cards' own firmware (GSP) answers the driver.

    Reads the kernel logs of this boot and of the one before for Xid 119 and 120, for RmInitAdapter
    0x62, and for known lines of this firmware. None is healthy. Where the catalog says that the
    loaded driver has this fault, another release is the fix; of a firmware that did not start the
    known lines that tell why, as that this kind of module does not drive the card; otherwise power
    and the PCIe link of that card come first. Lines of this boot come before those of the previous
    one.
    """
    found = troubles(examined)
    if found:
        return [_failed(examined, subject, entries) for subject, entries in found.items()]
    if views.has_no_gpu(examined):
        return Finding("skipped", views.NO_GPU)
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    return kernel_logs.clean(examined.snapshot, "GSP trouble")


@once
def troubles(examined: Examined) -> dict[str, list[_Entry]]:
    """By subject, those of this boot first."""
    snapshot = examined.snapshot
    named = [
        (f"gpu {xid.address or 'unknown'}", (which, xid.entry)) for which, xid in _xids(snapshot)
    ]
    for which, line in kernel_logs.matching(snapshot, _NOT_STARTED):
        if shape := _NOT_STARTED.search(line.message):
            subject = subject_of(examined, normal(shape["address"] or ""))
            named.append((subject, (which, line)))
    found: dict[str, list[_Entry]] = {}
    for boot in kernel_logs.SOURCES:
        for subject, entry in named:
            if entry[0] == boot:
                found.setdefault(subject, []).append(entry)
    return found


def _xids(snapshot: HostSnapshot) -> list[tuple[Which, Xid]]:
    xids = kernel_logs.of_both_boots(snapshot, lambda log: log.xids)
    return [(which, xid) for which, xid in xids if xid.number in XIDS]


def _failed(examined: Examined, subject: str, entries: list[_Entry]) -> Finding:
    bad = _bad_verdict(examined)
    is_start = all(_NOT_STARTED.search(one.message) for _, one in entries)
    cause = explaining(examined, "drv.flavor", "drv.gsp") if is_start else None
    now = [one for one in entries if one[0] == "current"]
    shown = [one for _, one in now or entries]
    numbers = sorted({xid.number for _, xid in _xids(examined.snapshot) if xid.entry in shown})
    times = count(shown)
    return Finding(
        "fail",
        "GSP firmware did not answer the driver"
        + (f": Xid {', '.join(map(str, numbers))}" if numbers else "")
        + (f", {times} times" if times > 1 else "")
        + ("" if now else " (in the previous boot)"),
        kernel_logs.cited(now or entries, _SHOWN),
        subject=subject,
        why=" ".join((_WHY, *([bad.why] if bad else []), *([cause.why] if cause else []))),
        fix=cause.fix if cause and not bad else _fix(examined, bad),
    )


def _version(examined: Examined) -> Version | None:
    loaded = examined.snapshot[NVIDIA_VERSION].value
    try:
        return versions.parse((loaded and loaded.version) or "")
    except ValueError:
        return None


def _bad_verdict(examined: Examined) -> Verdict | None:
    """Why the loaded driver itself may be to blame, as far as the catalog knows."""
    version = _version(examined)
    if version is None:
        return None
    verdicts = lookup.verdicts(examined.catalog, version, views.driven(examined))
    bad = (one for one in verdicts if one.status == "bad" and one.purpose in {"any", "stability"})
    return next(bad, None)


def _fix(examined: Examined, bad: Verdict | None) -> Fix:
    advice = advise(examined) if bad else DriverAdvice()
    if advice.declare:
        return Fix(
            kind="apply+reboot",
            concern=driver_state.CONCERN,
            declare=advice.declare,
            text=f"`rigops apply` installs driver {advice.driver}, without that fault, and reboots",
            by_hand=f"install driver {advice.driver}, which is without that fault, and reboot",
        )
    loaded = examined.snapshot[NVIDIA_VERSION].value
    is_closed = loaded is not None and loaded.flavor == "proprietary"
    text = f"{_LOOK_FIRST}, {_OTHER_DRIVER}"
    return fix_by_hand(text + (_SWITCH_OFF if is_closed else ""))
