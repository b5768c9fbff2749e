"""The cards' supply and limits: cables, voltage, limits, units that set them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rigops.concerns.preconditions import rivals
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import reported
from rigops.doctor.views.reported import NotReported
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.units import SECTION as UNITS
from rigops.probe.sections.units import CardSetter, Unit
from rigops.probe.smi.report import SmiGpu

_SHOWN: Final = 5
_CABLE_XID: Final = 54


@Check("pwr.units", needs=(UNITS, SMI), fixes=("hands",))
def units(examined: Examined) -> Finding:
    """One place only sets power limits.

    Searches /etc/systemd/system, /usr/local/bin and sbin, cron, rc.local and udev rules for lines
    that call nvidia-smi -pl or dcgmi config --set; root is needed for crontabs. One place is ok,
    and so is none. With two the last writer wins; rigops counts as one where `gpu_power_limit` is
    declared. A unit that is disabled, and that no timer starts, does not count. A limit below a
    card's minimum is a warning too, because the driver's refusal is lost in the journal. So is a
    running lactd, nvidia-powerd, nvidia-pstated, nvidia_oc, TuxClocker, GreenWithEnvy or
    CoolerControl where `gpu_power_limit` is declared.
    """
    snapshot = examined.snapshot
    found = snapshot[UNITS].value
    setters = found.setters if found else None
    if found is None or setters is None:
        return Finding("unknown", "which units and scripts set the cards was not collected")
    limiters = [one for one in setters if "power" in one.sets and rivals.may_run(found, one)]
    evidence = tuple(Evidence(UNITS.name, one.line) for one in limiters[:_SHOWN])
    places = list(dict.fromkeys(one.file for one in limiters))
    running = dict(rivals.running(found))
    declares = examined.spec.gpu_power_limit is not None
    if declares and running:
        return _undone_by(running, [found.unit(name) for name in running])
    if declares and not any("rigops-" in place for place in places):
        places.append("rigops itself, as declared")
    if len(places) > 1:
        return _rivals(places, evidence)
    if not snapshot[UNITS].is_complete or found.unreadable:
        without = ", ".join(found.unreadable) or "the answer is incomplete"
        return Finding("unknown", f"not every place could be searched ({without})", evidence)
    if not places:
        summary = "nothing sets power limits at boot"
        return Finding("ok", summary)
    return _one_writer(examined, limiters, places[0], evidence)


def _undone_by(running: Mapping[str, str], units: Sequence[Unit | None]) -> Finding:
    daemons = [name for name in running if name in rivals.DAEMONS]
    off = f"`systemctl disable --now --no-reload {' '.join(daemons)}`" if daemons else "end it"
    return Finding(
        "warn",
        f"{', '.join(running)} may undo the declared power limit",
        tuple(Evidence(UNITS.name, one.line) for one in units if one),
        why="; ".join(f"{name} {does}" for name, does in running.items()) + ".",
        fix=fix_by_hand(f"{off}, or take the cards out of its configuration"),
    )


def _rivals(places: list[str], evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "warn",
        f"{len(places)} places set power limits: {', '.join(places)}",
        evidence,
        why="The last writer wins, and which one is last may change from boot to boot.",
        fix=fix_by_hand(
            "keep one: `systemctl disable --now --no-reload UNIT` for a unit that is too many, or "
            "remove its nvidia-smi line from the script or the crontab"
        ),
    )


def _one_writer(
    examined: Examined, limiters: Sequence[CardSetter], place: str, evidence: tuple[Evidence, ...]
) -> Finding:
    """Whether the cards refuse what it sets: otherwise the refusal is only in the journal."""
    asked = [one for one in limiters if one.watts is not None and not one.names_cards]
    ranges = [(card, card.smi.watts_min if card.smi else None) for card in examined.cards]
    for one in asked:
        for card, least in ranges:
            if least is not None and one.watts is not None and one.watts < least:
                return _refused(one, one.watts, card, least)
    if asked and (reported.gap(examined) or any(least is None for _, least in ranges)):
        summary = f"{place} sets limits, and whether the cards take them is not known"
        return Finding("unknown", summary, evidence)
    return Finding("ok", f"one place sets power limits: {place}", evidence)


def _refused(setter: CardSetter, watts: float, card: Card, least: float) -> Finding:
    return Finding(
        "warn",
        f"sets {watts:g} W, and {card.subject} takes no less than {least:g} W",
        (Evidence(UNITS.name, setter.line),),
        subject=setter.file,
        why="The driver refuses such a limit, and the card keeps the one that it had.",
        fix=Fix(
            kind="hands",
            declare={"gpu_power_limit": int(least)},
            text=f"set {least:g} W or more in {setter.file}, or remove the line there and declare "
            "gpu_power_limit",
        ),
    )


@Check("pwr.cable", needs=(KERNEL_LOG, SMI), fixes=("hands",), cause_rank=92)
def cable(examined: Examined) -> Finding:
    """No card misses a power cable.

    Looks for Xid 54 in this boot's kernel log, and for known lines of nvidia-smi and of the driver
    about external power. It is ok when nvidia-smi reports every card and the log, from its
    beginning, has no such line.
    """
    snapshot = examined.snapshot
    log = snapshot[KERNEL_LOG].value
    entries = [one.entry for one in log.xids if one.number == _CABLE_XID] if log else []
    if entries:
        return Finding(
            "fail",
            "a card reports that a power cable is missing or loose",
            tuple(Evidence(KERNEL_LOG.name, one.line) for one in entries[:_SHOWN]),
            why="A card that does not see all its power plugs does not start, or runs at its "
            "lowest clocks.",
            fix=fix_by_hand(
                "power off, unplug the rig, and seat every 8-pin or 12VHPWR plug at the "
                "card and at the supply until it clicks; one cable for each plug, no splitters"
            ),
        )
    if missing := reported.gap(examined):
        return missing
    if log is None or not snapshot[KERNEL_LOG].is_complete or log.starts_at_boot is False:
        return Finding("unknown", "the kernel log of this boot was not read from its beginning")
    return Finding("ok", "no card complains about its power cables")


@Check("pwr.brake", needs=(SMI,), fixes=("hands",))
@reported.each_card("no card is held by a power brake right now")
def brake(_: Examined, __: Card, smi: SmiGpu) -> Finding | NotReported:
    """No power brake holds a card back.

    Reads the hardware power brake bit (0x80) of the reasons why the driver limits the clocks. It is
    ok when it is not set; it shows this moment only, so check while the cards work. The signal
    comes from the supply or the board, never from the card's own limit.
    """
    if smi.throttle is None:
        return NotReported("why the clocks are limited is not reported")
    if "hw_power_brake" not in smi.throttle:
        return Finding("ok", "no power brake")
    return Finding(
        "fail",
        "the power brake is on: the supply or the board orders the card to slow down",
        why="This signal comes from outside the card: the power supply reports overload or "
        "heat, or the slot's PWRBRK pin is pulled.",
        fix=fix_by_hand(
            "look at the supply that feeds this card (load, fan, temperature, firmware "
            "alarms), lower gpu_power_limit, and check the riser's PWRBRK pin"
        ),
    )
