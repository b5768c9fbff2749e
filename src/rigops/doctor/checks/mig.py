"""Cards that are divided (MIG), or will be after a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined

MIG = "mig"


@Check("mig", needs=(SMI,), fixes=("hands",))
def mig(examined: Examined) -> Finding | list[Finding]:
    """No card is divided into instances by accident.

    Reads the current and the pending MIG mode of each card from nvidia-smi. Different ones are a
    warning, since the next reset changes what programs see; a divided card is
    information. GeForce
    cards have no MIG.
    """
    snapshot = examined.snapshot
    report = snapshot[SMI].value
    if report is None or not any(card.smi for card in examined.cards):
        return Finding("unknown", "nvidia-smi reported nothing about the cards")
    found = [one for card in examined.cards for one in _card(card)]
    if found:
        return found
    told_all = all(card.smi for card in examined.cards)
    if not told_all or not report.is_complete or not snapshot[SMI].is_complete:
        return Finding("unknown", "nvidia-smi did not report all cards")
    if all(card.smi and card.smi.mig_current is None for card in examined.cards):
        return Finding("skipped", "these cards cannot be divided (MIG)")
    return Finding("ok", "no card is divided (MIG), now or after a reset")


def _card(card: Card) -> list[Finding]:
    smi = card.smi
    if smi is None or smi.mig_current is None:
        return []
    now = "on" if smi.mig_current else "off"
    values = (line for path, line in smi.raw.items() if path.startswith("mig_mode/"))
    evidence = tuple(Evidence(SMI.name, line) for line in (smi.line, *values))
    if smi.mig_pending is not None and smi.mig_pending != smi.mig_current:
        later = "on" if smi.mig_pending else "off"
        return [
            Finding(
                "warn",
                f"MIG is {now} and will be {later} after a reset of the card",
                evidence,
                subject=card.subject,
                why="The next reset or reboot changes which devices programs see.",
                fix=Fix(
                    kind="hands",
                    text=f"`nvidia-smi -i {card.address} -mig {int(smi.mig_current)}` to keep it "
                    "as it is, or reboot to have the change now",
                ),
            )
        ]
    if not smi.mig_current:
        return []
    return [
        Finding(
            "info",
            "the card is divided (MIG)",
            evidence,
            subject=card.subject,
            why="A program sees one instance, and instances grant no P2P to each other.",
        )
    ]
