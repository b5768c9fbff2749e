"""The errors that the cards' ECC has counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import reported
from rigops.doctor.views.reported import Verdict
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.views.cards import Card
    from rigops.probe.smi.report import SmiGpu

VOLATILE, AGGREGATE, CORRECTED = "ecc.vol", "ecc.agg", "ecc.corr"

MOST_AGGREGATE: Final = 4  # more uncorrected errors in a card's life are grounds for an RMA
MOST_CORRECTED: Final = 50_000_000  # where operators of large clusters take a card out

_NO_ECC = "these cards have no ECC, or it is off"
_NO_ECC_WHY = (
    "That is to be expected of GeForce cards: nobody counts their memory's errors. Wrong results "
    "of one card only are the sign to look for."
)
RESET = Fix(
    kind="hands",
    text="stop what uses the card, then `nvidia-smi --gpu-reset -i ADDRESS` (cards with NVLink all "
    "together), or reboot",
)
REPLACE = Fix(
    kind="buy",
    text="have the card replaced: it is a case for the seller's or the maker's warranty (RMA)",
)
_VOLATILE_EVIDENCE: Final = re.compile(r"ecc_errors/volatile/.*(uncorr|double_bit/total)")
_AGGREGATE_EVIDENCE: Final = re.compile(r"ecc_errors/aggregate/.*(uncorr|double_bit/total)")
_CORRECTED_EVIDENCE: Final = re.compile(r"ecc_errors/aggregate/.*(_corr|single_bit/total)")


@Check("ecc.vol", needs=(SMI,), fixes=("hands",))
def volatile(examined: Examined) -> list[Finding]:
    """No uncorrected memory errors since the last reset.

    Reads the volatile ECC counters. One uncorrected error is a failure: data was wrong. Cards
    without ECC, such as GeForce, and cards with ECC switched off count nothing and are skipped,
    never taken for well.
    """

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        errors = smi.ecc_volatile_uncorrected
        if errors is None:
            return _no_ecc(card, smi)
        if errors:
            return Verdict(
                status="fail",
                summary=f"{errors} memory errors that ECC could not correct since the last reset",
                why="A program has got wrong data, or was ended because of it.",
                data={"errors": errors},
                fix=RESET,
            )
        return Verdict(status="ok", summary="no uncorrected errors")

    return reported.judge_cards(
        examined, judge, "no uncorrected memory errors since the reset", evidence=_VOLATILE_EVIDENCE
    )


@Check("ecc.agg", needs=(SMI,), fixes=("buy",))
def aggregate(examined: Examined) -> list[Finding]:
    """Few uncorrected memory errors in a card's life.

    Reads the aggregate ECC counters, which survive reboots. More than 4 uncorrected errors fail,
    which operators of large clusters take for grounds to replace a card; 1 to 4 are information.
    Cards without ECC are skipped.
    """

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        errors = smi.ecc_aggregate_uncorrected
        if errors is None:
            return _no_ecc(card, smi)
        if errors > MOST_AGGREGATE:
            return Verdict(
                status="fail",
                summary=f"{errors} uncorrected memory errors in the card's life",
                data={"errors": errors},
                fix=REPLACE,
            )
        if errors:
            return Verdict(
                status="info",
                summary=f"{errors} uncorrected memory errors in the card's life",
                why=f"Up to {MOST_AGGREGATE} are borne; watch whether it becomes more.",
            )
        return Verdict(status="ok", summary="no uncorrected errors")

    return reported.judge_cards(
        examined,
        judge,
        "no uncorrected memory errors in the cards' lives",
        evidence=_AGGREGATE_EVIDENCE,
    )


@Check("ecc.corr", needs=(SMI,), fixes=("hands",))
def corrected(examined: Examined) -> list[Finding]:
    """No flood of corrected memory errors.

    Reads the aggregate count of errors that ECC has corrected. Some are normal; 50 million, where
    cluster operators take a card out, are a warning. How fast they grow says more than how many
    there are. Cards without ECC are skipped.
    """

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        errors = smi.ecc_aggregate_corrected
        if errors is None:
            return _no_ecc(card, smi)
        if errors >= MOST_CORRECTED:
            return Verdict(
                status="warn",
                summary=f"{errors} corrected memory errors in the card's life",
                why="Each was corrected. So many mean that the memory is worn or too hot.",
                data={"errors": errors},
                fix=Fix(
                    kind="hands",
                    text="cool the card better, and note the number: if it grows by the day, have "
                    "the card replaced",
                ),
            )
        return Verdict(status="ok", summary=f"{errors} corrected errors")

    return reported.judge_cards(
        examined, judge, "few or no corrected memory errors", evidence=_CORRECTED_EVIDENCE
    )


def _no_ecc(card: Card, smi: SmiGpu) -> Verdict:
    if smi.ecc:
        return Verdict(status="unknown", summary="ECC is on, and its counters are not reported")
    return Verdict(
        status="skipped" if smi.ecc is False else "not_reported",
        expected=reported.is_geforce(card) or (card.model is not None and not card.model.ecc),
        summary=_NO_ECC,
        why=_NO_ECC_WHY,
    )
