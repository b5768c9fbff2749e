"""Cards that the driver finds and cannot start."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.catalog import find_init_codes
from rigops.catalog.model import InitCode
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.checks import bar1, presence
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.known_lines import explaining
from rigops.doctor.views import driver_state, kernel_logs
from rigops.doctor.views.cards import answers, subject_of
from rigops.doctor.views.kernel_logs import Which
from rigops.probe.address import normal
from rigops.probe.kernel_log.events import OFF_THE_BUS, count
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.lost_cards import ADVICE
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION

if TYPE_CHECKING:
    _Entry = tuple[Which, LogLine]

_ADDRESS: Final = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
# Drivers before 400 name no card, and write the second number with all its digits.
_FAILED: Final = re.compile(
    rf"^NVRM: (?:GPU {_ADDRESS}: )?RmInitAdapter failed!"
    r"(?: ?\((?P<first>0x[0-9a-fA-F]{1,8})(?::0x0{0,8}(?P<second>[0-9a-fA-F]{1,8}))?)?"
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
_OF_A_GUEST: Final = (
    "in a virtual machine: UEFI firmware (OVMF, EFI), a q35 machine, the host's CPU type, all "
    "functions of the card, and a 64-bit window that holds its memory (ESXi: "
    "pciPassthru.use64bitMMIO = TRUE); a driver of vGPU for vGPU alone. Then switch the host off "
    "and on, since the card may have come back broken from its last guest"
)
_NO_ROOM: Final = "one of its windows (BAR) has no room in the address space"
_MAKE_ROOM: Final = (
    "switch on Above 4G Decoding in the BIOS (see bar1.size), then try the kernel argument "
    "pci=realloc=on"
)


@Check(
    "gpu.init",
    needs_gpu=False,
    needs=(*views.COUNTS_CARDS, BOOT, NVIDIA_VERSION, KERNEL_LOG_PREVIOUS, KERNEL_LOG),
    fixes=("hands",),
    cause_rank=115,
)
def init(examined: Examined) -> Finding | list[Finding]:
    """The driver can start every card.

    Reads the kernel logs of this boot and of the one before for `NVRM: RmInitAdapter failed!`,
    whatever its numbers: the catalog explains the first (where it stopped) and the second (why), as
    far as NVIDIA or public reports do. A kind of module that does not drive it is the better
    explanation, and so is a card that did not wake up, or has no room for its windows, in the log
    of the same boot; where the code says nothing, any other known line. A card that did not start
    is a failure; one that nvidia-smi lists now is a warning, and of the previous boot information.
    Where the log has lost that line, known lines that follow it count. 0x62, the GSP firmware, is
    judged by drv.gsp, and a card that the driver ignores by drv.flavor.
    """
    found = {
        subject: others
        for subject, entries in _by_card(examined).items()
        if (others := [one for one in entries if _code(one[1].message)[0] != _OF_GSP])
    }
    if found:
        return [_failed(examined, subject, entries) for subject, entries in found.items()]
    if views.has_no_gpu(examined):
        return Finding("skipped", views.NO_GPU)
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    return kernel_logs.clean(examined.snapshot, "failed start of a card")


def _by_card(examined: Examined) -> dict[str, list[_Entry]]:
    found: dict[str, list[_Entry]] = {}
    for which, entry in kernel_logs.matching(examined.snapshot, _FAILED):
        if shape := _FAILED.search(entry.message):
            subject = subject_of(examined, normal(shape["address"] or ""))
            found.setdefault(subject, []).append((which, entry))
    return found


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
    fix, why = _fix(known, in_a_guest=bool(bar1.more_space_of_a_guest(examined))), _WHY
    if cause := _cause(examined, subject, now, is_unknown=bool(first and not known)):
        why = f"{_WHY} The code alone: {meaning}." if first else _WHY
        meaning, fix = cause.meaning, cause.fix
    starts_now = answers(examined, subject)
    return Finding(
        ("warn" if now else "info") if starts_now else "fail",
        f"the driver could not start this card{named}: {meaning}"
        + (f", {times} times" if times > 1 else "")
        + ("" if now else " (in the previous boot)")
        + ("; it answers now" if starts_now else ""),
        (
            *(cause.evidence if cause else ()),
            *kernel_logs.cited(shown, _SHOWN),
            *_complaint(examined),
        ),
        subject=subject,
        why=why,
        fix=None if starts_now and not now else fix,
        data={"cause": cause.check} if cause and cause.check else {},
    )


class _Cause(NamedTuple):
    meaning: str
    fix: Fix
    evidence: tuple[Evidence, ...]
    check: str = ""  # that tells the same


def _cause(
    examined: Examined, subject: str, now: Sequence[_Entry], *, is_unknown: bool
) -> _Cause | None:
    """A module that does not drive it; the kernel's lines on this card before its failed start."""
    if not now:
        return None
    if flavor := explaining(examined, "drv.flavor"):
        return _by_line(flavor)
    address, started = subject.removeprefix("gpu "), now[0][1].clock
    for entry in _unreachable(examined).get(address, ()):
        if _is_before(entry, started):
            fix = presence.wake(address)
            return _Cause(presence.NOT_WOKEN, fix, driver_state.cited([entry]), "gpu.lost")
    for entry in _dropped(examined).get(address, ()):
        if _is_before(entry, started):
            cited = driver_state.cited([entry])
            return _Cause("it has fallen off the bus", fix_by_hand(ADVICE), cited, "xid")
    if lines := bar1.without_room(examined).get(address):
        fix = bar1.more_space_of_a_guest(examined) or fix_by_hand(_MAKE_ROOM)
        return _Cause(_NO_ROOM, fix, driver_state.cited(lines[:1]), "bar1.size")
    other = explaining(examined, "gpu.init") if is_unknown else None
    return _by_line(other) if other else None


def _by_line(known: Finding) -> _Cause | None:
    return _Cause(known.summary, known.fix, known.evidence, known.id) if known.fix else None


@once
def _unreachable(examined: Examined) -> dict[str | None, list[LogLine]]:
    found: dict[str | None, list[LogLine]] = defaultdict(list)
    for entry in examined.snapshot[KERNEL_LOG].or_empty.matching(presence.UNREACHABLE):
        if shape := presence.UNREACHABLE.search(entry.message):
            found[normal(shape["address"] or "")].append(entry)
    return found


@once
def _dropped(examined: Examined) -> dict[str | None, list[LogLine]]:
    found: dict[str | None, list[LogLine]] = defaultdict(list)
    for xid in examined.snapshot[KERNEL_LOG].or_empty.xids:
        if xid.number == OFF_THE_BUS and not xid.entry.boot:
            found[xid.address].append(xid.entry)
    return found


def _is_before(entry: LogLine, clock: float | None) -> bool:
    return clock is None or entry.clock is None or entry.clock <= clock


def _code(message: str) -> tuple[str, str]:
    """As the catalog writes them: 0x30:0xffff for 0x30:0xffffffff too."""
    shape = _FAILED.search(message)
    first, second = (shape["first"], shape["second"]) if shape else (None, None)
    number = int(second, 16) & 0xFFFF if second else 0
    return (first or "").lower(), f"0x{number:02x}" if second else ""


def _fix(known: Sequence[InitCode], *, in_a_guest: bool) -> Fix:
    """The reason says more than the place."""
    remedy = next((one.remedy for one in reversed(known) if one.remedy), _SEEK)
    return fix_by_hand(f"{_OF_A_GUEST}. If it stays: {remedy}" if in_a_guest else remedy)


def _complaint(examined: Examined) -> tuple[Evidence, ...]:
    report = examined.snapshot[SMI].or_empty
    lines = report.failure_lines[:1] if report.failure == "no-devices" else ()
    return tuple(Evidence(SMI.name, line) for line in lines)
