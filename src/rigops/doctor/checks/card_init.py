"""Cards that the driver finds and cannot start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.catalog import find_init_codes
from rigops.doctor import views
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import driver_state, kernel_logs
from rigops.doctor.views.cards import answers, subject_of
from rigops.probe.address import normal
from rigops.probe.kernel_log.events import count
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION

if TYPE_CHECKING:
    from rigops.catalog.model import InitCode
    from rigops.doctor.views.kernel_logs import Which
    from rigops.probe.kernel_log.events import LogLine

    _Entry = tuple[Which, LogLine]

_ADDRESS: Final = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
# Drivers before 400 name no card, and write the second number with all its digits.
_FAILED: Final = re.compile(
    rf"^NVRM: (?:GPU {_ADDRESS}: )?RmInitAdapter failed!"
    r"(?: ?\((?P<first>0x[0-9a-fA-F]{1,8})(?::0x0{0,8}(?P<second>[0-9a-fA-F]{1,8}))?)?"
)
# What follows it, or a refusal of the card, and says nothing of the cause.
_FOLLOWS: Final = (
    re.compile(rf"^NVRM: (?:GPU {_ADDRESS}: )?rm_init_adapter(?:\([0-9]{{1,3}}\))? failed"),
    re.compile(rf"^nvidia {_ADDRESS}: probe with driver nvidia failed with error"),
    re.compile(rf"^nvidia: probe of {_ADDRESS} failed with error"),
)
_OF_GSP: Final = "0x62"  # drv.gsp judges it, with the other words of that trouble
_SHOWN: Final = 3
_WHY: Final = (
    "The driver has found the card and gives up while it starts it: no program can use the card, "
    "and nvidia-smi lists it no more, or no card at all (No devices were found)."
)
_SEEK: Final = (
    "switch the machine off, pull the power cord for a minute and start it again; if it stays, "
    "reseat the card, its riser and its power plugs, then try another driver branch (`rigops "
    "drivers` shows which are good)"
)


@Check(
    "gpu.init",
    needs_gpu=False,
    needs=(*views.COUNTS_CARDS, NVIDIA_VERSION, KERNEL_LOG_PREVIOUS, KERNEL_LOG),
    fixes=("hands",),
    cause_rank=98,
)
def init(examined: Examined) -> Finding | list[Finding]:
    """The driver can start every card.

    Reads the kernel logs of this boot and of the one before for `NVRM: RmInitAdapter failed!`,
    whatever its numbers: the catalog says what the first (where it stopped) and the second (why)
    mean, as far as NVIDIA or public reports do. A card that did not start is a failure; one that
    nvidia-smi lists now is a warning, and of the previous boot information. Where the log has lost
    that line, `rm_init_adapter failed` or the failed probe of the card counts. 0x62, the GSP
    firmware, is judged by drv.gsp, and a card that the driver ignores by drv.flavor.
    """
    found = _by_card(examined, _FAILED)
    for pattern in _FOLLOWS:
        for subject, entries in _by_card(examined, pattern).items():
            if "gpu unknown" not in found and not _ignores_cards(examined):
                found.setdefault(subject, entries)
    found = {
        subject: others
        for subject, entries in found.items()
        if (others := [one for one in entries if _code(one[1].message)[0] != _OF_GSP])
    }
    if found:
        return [_failed(examined, subject, entries) for subject, entries in found.items()]
    if views.has_no_gpu(examined):
        return Finding("skipped", views.NO_GPU)
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    current = kernel_logs.read(examined.snapshot, "current")
    if current.gap:
        return Finding("unknown", f"whether every card started is not known: the log {current.gap}")
    if current.log and current.log.starts_at_boot is False:
        return Finding("info", "no card failed to start in what is left of this boot's kernel log")
    return Finding("ok", "no card failed to start in this boot")


def _by_card(examined: Examined, pattern: re.Pattern[str]) -> dict[str, list[_Entry]]:
    found: dict[str, list[_Entry]] = {}
    for which, entry in kernel_logs.matching(examined.snapshot, pattern):
        if shape := pattern.search(entry.message):
            subject = subject_of(examined, normal(shape["address"] or ""))
            found.setdefault(subject, []).append((which, entry))
    return found


def _ignores_cards(examined: Examined) -> bool:
    logs = (examined.snapshot[section].or_empty for section in kernel_logs.SOURCES.values())
    return any(log.ignored_cards for log in logs)


def _failed(examined: Examined, subject: str, entries: Sequence[_Entry]) -> Finding:
    now = [(which, one) for which, one in entries if which == "current"]
    shown = now or entries
    times = count(one for _, one in shown)
    codes = Counter(_code(one.message) for _, one in shown)
    (first, second), _ = codes.most_common(1)[0]
    known = find_init_codes(examined.catalog, first, second)
    named = f" ({first}:{second})" if second else f" ({first})" if first else ""
    meaning = "; ".join(one.meaning for one in known) or (
        "the code is not documented" if first else "the log has no code"
    )
    starts_now = answers(examined, subject)
    return Finding(
        ("warn" if now else "info") if starts_now else "fail",
        f"the driver could not start this card{named}: {meaning}"
        + (f", {times} times" if times > 1 else "")
        + ("" if now else " (in the previous boot)")
        + ("; it answers now" if starts_now else ""),
        (*kernel_logs.cited(shown, _SHOWN), *_complaint(examined)),
        subject=subject,
        why=_WHY,
        fix=None if starts_now and not now else Fix(kind="hands", text=_fix(known)),
    )


def _code(message: str) -> tuple[str, str]:
    """As the catalog writes them: 0x30:0xffff for 0x30:0xffffffff too."""
    shape = _FAILED.search(message)
    first, second = (shape["first"], shape["second"]) if shape else (None, None)
    number = int(second, 16) & 0xFFFF if second else 0
    return (first or "").lower(), f"0x{number:02x}" if second else ""


def _fix(known: Sequence[InitCode]) -> str:
    """The reason says more than the place."""
    return next((one.remedy for one in reversed(known) if one.remedy), _SEEK)


def _complaint(examined: Examined) -> tuple[Evidence, ...]:
    report = examined.snapshot[SMI].or_empty
    lines = report.failure_lines[:1] if report.failure == "no-devices" else ()
    return tuple(Evidence(SMI.name, line) for line in lines)
