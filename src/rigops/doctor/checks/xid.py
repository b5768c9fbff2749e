"""Xids: what the driver writes into the kernel log when a card is in trouble."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from rigops.catalog import find_xid
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.checks import gsp
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import driver_state, kernel_logs, moved_cards, xid_context
from rigops.doctor.views.cards import answers
from rigops.doctor.views.declared import CARD_NEEDS, judge_card
from rigops.doctor.views.incidents import ACTION_CHANGED, Incident, incidents, severity
from rigops.doctor.views.kernel_logs import Read
from rigops.doctor.views.moved_cards import Earlier
from rigops.inventory.spec import choice as per_gpu
from rigops.inventory.spec.gpu import written_limit
from rigops.inventory.spec.model import PerGpu, PowerLimit
from rigops.json_fields import readable
from rigops.probe.lost_cards import ADVICE, UNNAMED
from rigops.probe.sections.boots import SECTION as BOOTS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS, XID_HISTORY
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.record.declared import PATH as DECLARED
from rigops.record.declared import DeclaredKeys

_SHOWN = 4
_OLDER_SHOWN = 5
# Too little or too uneven power is the first suspect, and the only one that software can help.
_OF_POWER: Final = frozenset({79, 167})
_KEY: Final = "gpu_power_limit"
_SECOND_TIME: Final = "A second time: power supply, cables, riser, slot, seating."
_LOWER: Final = f'lower "{_KEY}" further, or declare "gpu_clocks". {_SECOND_TIME}'
_LOOK_IT_UP: Final = (
    "look the number up in NVIDIA's table of Xid errors (docs.nvidia.com/deploy/xid-errors), and "
    "restart the program that used the card"
)
_PEER_TESTS: Final = (
    "simpleP2P",
    "p2pBandwidthLat",  # the kernel cuts names at 15 characters
    "nvbandwidth",
    "all_reduce_perf",
    "all_gather_perf",
    "sendrecv_perf",
)
_MMU_FAULT: Final = 31
_BROKEN_MAPPING: Final = (
    "the mapping of the other card's memory is broken: see iommu.mode and acs.path, then the driver"
)
# A program's own fault comes on whatever card it runs.
_OF_PROGRAMS: Final = frozenset({13, 31, 43})
_A_STORM: Final = 10
_SEVERAL: Final = 3  # runs of programs
_ONE_CARD: Final = (
    "take overclocks and undervolts off this card, load it alone (`gpu_burn -i`), and swap it with "
    "its neighbour: if the Xids go with it, the card is defective"
)
_EARLIER: Final = {
    "card": "; in another boot the same card had it at {address}",
    "slot": "; in another boot another card had it in this slot",
}
_SWAPPED: Final = {
    "card": "it is likely the card: reboot, take overclocks and undervolts off it and load it "
    "alone (`gpu_burn -i`) in a third slot or another machine; if the Xid comes there too, claim "
    "the warranty",
    "slot": "it is likely not the card: swap the riser of this slot, then the power cables, then "
    "try another slot",
}
_ASKED_ACTION: Final = re.compile(r"\bto 0x[0-9a-fA-F]{1,8} \((?P<action>[^()]{1,60})\)")
_NEXT_TIME: Final = "A second time: "


@Check(
    "xid",
    needs_gpu=False,
    needs=(
        *views.COUNTS_CARDS,
        NVIDIA_VERSION,
        BOOTS,
        XID_HISTORY,
        KERNEL_LOG_PREVIOUS,
        KERNEL_LOG,
        *CARD_NEEDS,
    ),
    fixes=("apply", "hands"),
    cause_rank=100,
)
def xid(examined: Examined) -> list[Finding]:
    """The driver has reported no trouble with a card (Xid).

    Reads the kernel log of this boot and of the one before for `NVRM: Xid` and for cards that have
    fallen off the bus, and the Xids of 90 days for those that come back after a reboot. One that
    the driver calls Fatal is a failure. Where many programs met Xid 13, 31 or 43, and on one card
    only, it is the card that has to be looked at. Several Xids of one card within two seconds are
    one incident, named after the first of the gravest; the catalog ranks the numbers. A card that
    fell off the bus in the previous boot and is back is information once apply has given it another
    `gpu_power_limit`. Where the driver named the cards (`NVRM: GPU at PCI:…: GPU-…`) in two boots,
    it tells whether an Xid of the hardware followed the card to another slot, or stayed in the
    slot. Where a paste speaks of suspend, heat, changed clocks or an external card, the fix begins
    with that. A log that could not be read is never ok: this is then unknown, and the whole host
    where it timed out or is missing although there was root.
    """
    found = incidents(examined.snapshot, examined.catalog)
    boots = Counter((one.number, one.address) for one in found)
    recent = [one for boot in ("current", "previous") for one in found if one.boot == boot]
    older = [one for one in found if one.boot == "older"]
    earlier = dict(zip(map(id, found), moved_cards.find_earlier(examined, found), strict=True))
    findings = [
        _incident(
            examined,
            one,
            recent,
            earlier[id(one)],
            came_back=boots[one.number, one.address] > 1,
        )
        for one in recent
    ]
    findings += _older(older) if older else []
    if examined.snapshot.bundle.paste:
        return findings or [kernel_logs.clean(examined.snapshot, "Xid")]
    return [*findings, *_rest(examined, recent, older)]


def _incident(
    examined: Examined,
    incident: Incident,
    found: Sequence[Incident],
    earlier: Earlier | None,
    *,
    came_back: bool,
) -> Finding:
    known = find_xid(examined.catalog, incident.number)
    status = _status(examined, incident)
    summary = _summary(
        incident, known.meaning if known else "not in the catalog", came_back=came_back
    )
    why = known.reading if known else ""
    if is_the_card := _is_the_card(examined, incident, found):
        summary = f"{summary}; {incident.programs} programs met it, on this card only"
    if not came_back and _is_answered(examined, incident):
        status, summary = "info", f"{summary}; it is back, with another power limit since then"
        why = f"{why} {_SECOND_TIME}"
    cited = _evidence(incident)
    if earlier and status != "info":
        summary += _EARLIER[earlier.follows].format(address=earlier.incident.address)
        cited += _evidence(earlier.incident)[:1]
    return Finding(
        status,
        summary,
        cited,
        subject=f"gpu {incident.address or UNNAMED}",
        why=why,
        fix=None
        if status == "info" and not _asked_action(incident)
        else fix_by_hand(_SWAPPED[earlier.follows])
        if earlier
        else fix_by_hand(_ONE_CARD)
        if is_the_card
        else _fix(examined, incident, came_back=came_back),
        data={
            "xid": incident.number,
            "count": incident.count,
            "first": incident.first,
            "last": incident.last,
            "boot": incident.boot,
            **(_moved(incident, earlier) if earlier else {}),
            **({"cause": "drv.gsp"} if not came_back and _is_of_gsp(examined, incident) else {}),
        },
    )


def _moved(incident: Incident, earlier: Earlier) -> dict[str, object]:
    addresses = dict.fromkeys((incident.address, earlier.incident.address))
    return {"follows": earlier.follows, "devices": list(addresses)}


def _is_of_gsp(examined: Examined, incident: Incident) -> bool:
    """Whether drv.gsp tells all of it."""
    told = gsp.troubles(examined).get(f"gpu {incident.address or UNNAMED}", ())
    numbers = {one.xid.number for one in incident.reports}
    return numbers <= gsp.XIDS and any(boot == incident.boot for boot, _ in told[:1])


def _status(examined: Examined, incident: Incident) -> Status:
    if _hit_a_peer_test(incident):
        return "fail"
    by_number = "fail" if incident.is_fatal else severity(examined.catalog, incident.number)
    is_owed = (
        incident.number == ACTION_CHANGED and incident.boot == "current" and _asked_action(incident)
    )
    return "warn" if is_owed and by_number == "info" else by_number


def _is_the_card(examined: Examined, incident: Incident, found: Sequence[Incident]) -> bool:
    """Where several programs met it again and again, and no other card had it."""
    is_a_storm = incident.count >= _A_STORM and incident.programs >= _SEVERAL
    is_compared = len(incident.processes) > 1 or (views.gpu_count(examined) or 0) > 1
    is_asked = incident.number in _OF_PROGRAMS and incident.address is not None
    if not (is_asked and is_a_storm and is_compared):
        return False
    return {one.address for one in found if one.number in _OF_PROGRAMS} == {incident.address}


def _summary(incident: Incident, meaning: str, *, came_back: bool) -> str:
    others = list(
        dict.fromkeys(
            one.xid.number for one in incident.reports if one.xid.number != incident.number
        )
    )
    return "".join(
        (
            f"Xid {incident.number}: {meaning}",
            f", {incident.count} times" if incident.count > 1 else "",
            f", with Xid {', '.join(map(str, others))}" if others else "",
            " (in the previous boot)" if incident.boot == "previous" else "",
            "; not the first boot with it" if came_back else "",
        )
    )


def _evidence(incident: Incident) -> tuple[Evidence, ...]:
    lines = list(
        dict.fromkeys(Evidence(one.section, one.xid.entry.line) for one in incident.reports)
    )
    return tuple(lines if len(lines) <= _SHOWN else [*lines[: _SHOWN - 1], lines[-1]])


def _older(older: Sequence[Incident]) -> list[Finding]:
    """Boots before the previous one: so that a trouble that comes back is seen as one."""
    times = Counter[tuple[int, str | None]]()
    for one in older:
        times[one.number, one.address] += one.count
    words = [
        f"Xid {number} on {address or 'a card that is not named'} ({count} times)"
        for (number, address), count in times.most_common(_OLDER_SHOWN)
    ]
    return [
        Finding(
            "info",
            f"in boots before the last two: {', '.join(words)}",
            tuple(_evidence(one)[-1] for one in older[-_OLDER_SHOWN:]),
            why="It is long over, and matters only if it comes back.",
        )
    ]


def _rest(
    examined: Examined, recent: Collection[Incident], older: Collection[Incident]
) -> list[Finding]:
    """The meaning of logs without a line."""
    snapshot = examined.snapshot
    current = kernel_logs.read(snapshot, "current")
    if not recent and not older and views.has_no_gpu(examined):
        return [Finding("skipped", views.NO_GPU)]
    if current.gap:
        return [_unknown(current, "in this boot")]
    if recent or older:
        return []
    if current.log and current.log.starts_at_boot is False:
        summary = "no Xid in the remaining kernel log of this boot; its beginning is lost"
        return [Finding("info", summary, why="The kernel keeps a short log; a journal keeps all.")]
    if driver_state.loaded(examined).is_loaded is False:
        return [Finding("skipped", f"{driver_state.NOT_LOADED}, which alone reports Xids")]
    return [Finding("ok", f"no Xid in this boot's kernel log{_about_previous(examined)}")]


def _about_previous(examined: Examined) -> str:
    previous = kernel_logs.read(examined.snapshot, "previous")
    if previous.gap:
        return f"; that of the previous boot {previous.gap}"
    is_kept = previous.log is not None and previous.log.absent is None
    return " and the previous boot's" if is_kept else "; none is kept of the previous boot"


def _unknown(read: Read, where: str) -> Finding:
    unparsed = read.log.unparsed[:_SHOWN] if read.log else ()
    return Finding(
        "unknown",
        f"whether there was an Xid {where} is not known: the kernel log {read.gap}",
        tuple(Evidence(KERNEL_LOG.name, line) for line in unparsed),
        essential=read.is_grave,
    )


def _hit_a_peer_test(incident: Incident) -> bool:
    """A program's error in daily work counts as the machine's during such a test."""
    return incident.number == _MMU_FAULT and any(
        process.startswith(_PEER_TESTS) for process in incident.processes
    )


def _asked_action(incident: Incident) -> str:
    """The driver's last request, in its own words; empty for none."""
    actions = [shape["action"] for one in incident.details if (shape := _ASKED_ACTION.search(one))]
    return actions[-1] if actions and actions[-1] != "None" else ""


def _lost_a_card(examined: Examined, incident: Incident) -> bool:
    """Which is away until the next boot: until then apply cannot set what it would declare."""
    subject = f"gpu {incident.address or UNNAMED}"
    is_now = incident.number in _OF_POWER and incident.boot == "current"
    return is_now and not answers(examined, subject)


def _is_back(examined: Examined, incident: Incident) -> bool:
    """After the reboot that lost cards are advised to get."""
    subject = f"gpu {incident.address or UNNAMED}"
    is_over = incident.number in _OF_POWER and incident.boot == "previous"
    return is_over and answers(examined, subject)


def _is_answered(examined: Examined, incident: Incident) -> bool:
    """Apply gave the power limit another value since then."""
    text = examined.snapshot[RIGOPS_STATE].or_empty.records.get(DECLARED)
    recorded = readable(DeclaredKeys.from_json, text)
    by = recorded.by.get(_KEY) if recorded and examined.spec.gpu_power_limit else None
    is_since = by is not None and incident.last is not None and by.at > incident.last
    return is_since and _is_back(examined, incident)


def _fix(examined: Examined, incident: Incident, *, came_back: bool) -> Fix:
    known = find_xid(examined.catalog, incident.number)
    text = known.remedy if known else _LOOK_IT_UP
    if advice := xid_context.advice(examined.snapshot, incident.number):
        return fix_by_hand(f"{advice} If that is not it: {text}")
    if _lost_a_card(examined, incident):
        return fix_by_hand(ADVICE)
    if _hit_a_peer_test(incident):
        text = _BROKEN_MAPPING
    asked = _asked_action(incident)
    if came_back:
        fix = text.partition(_NEXT_TIME)[2] or text
        text = f"it has come back after a reboot, so another one does not help: {fix}"
    if asked:
        text = f"the driver asks for: {asked}. {text}"
    declared = examined.spec.gpu_power_limit
    if not came_back and declared and not asked and _is_back(examined, incident):
        return _fix_of_limit(examined, incident, declared) or fix_by_hand(_LOWER)
    if came_back or declared or incident.number not in _OF_POWER:
        return fix_by_hand(text)
    return Fix(
        kind="apply",
        concern="gpu_tuning",
        declare={_KEY: "80%"},
        text=f"reboot once; `rigops apply` then lowers the power limit. {text}",
        by_hand=text,
    )


def _fix_of_limit(
    examined: Examined, incident: Incident, declared: PerGpu[PowerLimit]
) -> Fix | None:
    """Where the declared limit is not in force yet."""
    declare = {_KEY: per_gpu.declaration(declared, written_limit)}
    found = (
        judge_card(examined, card, "pwr.limit", declare)
        for card in examined.cards
        if incident.address in {None, card.address}
    )
    return next((one.fix for one in found if one and one.fix), None)
