"""The cards' memory: the errors that ECC has counted, and what was done about bad memory."""

from __future__ import annotations

from typing import Final

from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Fix, fix_by_hand
from rigops.doctor.views import reported
from rigops.doctor.views.reported import NotReported
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.smi.report import SmiGpu

MOST_REMAPPED: Final = 512  # rows a card can replace
MANY_RETIRED: Final = 15  # DCGM's soft limit of retired pages
TOO_MANY_RETIRED: Final = 63  # DCGM's hard limit; 64 is all that there is room for
_NEVER_REMAPS = frozenset({"Kepler", "Maxwell", "Pascal", "Volta", "Turing"})
MOST_AGGREGATE: Final = 4  # more uncorrected errors in a card's life are grounds for an RMA
MOST_CORRECTED: Final = 50_000_000  # where operators of large clusters take a card out
_NO_ECC = "these cards have no ECC, or it is off"
_NO_ECC_WHY = (
    "That is to be expected of GeForce cards: their memory's errors are not counted. Wrong results "
    "of one card only are the sign to look for."
)
_RESET = fix_by_hand(
    "stop the card's users, then `nvidia-smi --gpu-reset -i ADDRESS` (cards with NVLink all "
    "together), or reboot"
)
_REPLACE = Fix(
    kind="buy",
    text="have the card replaced: it is a case for the seller's or the maker's warranty (RMA)",
)


@Check("remap", needs=(SMI,), fixes=("hands", "buy"))
@reported.each_card("no memory row waits to be replaced", evidence=r"remapped_rows/")
def remap(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """No memory row waits to be replaced, and none could not be.

    Reads the row remapper of Ampere and newer cards: they replace bad rows of their memory by spare
    ones. Pending is a warning until the next reset or reboot; a failed replacement, or all 512
    spare rows used, means that the card must be replaced. Older cards do not answer: skipped.
    """
    pending, failed, rows = smi.remap_pending, smi.remap_failed, smi.remapped_uncorrected
    is_full = rows is not None and rows >= MOST_REMAPPED
    if failed or is_full:
        return Finding(
            "fail",
            f"all {rows} spare rows of its memory are used up"
            if is_full
            else "a bad row of its memory could not be replaced by a spare one",
            fix=_REPLACE,
        )
    if pending:
        return Finding(
            "warn",
            "a bad row of its memory will be replaced at the next reset",
            why="Until then the card works with the bad row.",
            fix=_RESET,
        )
    if pending is None and failed is None:
        is_old = card.model is not None and card.model.architecture in _NEVER_REMAPS
        return NotReported(
            "these cards do not replace rows of their memory, or do not report it",
            expected=is_old or reported.is_geforce(card),
            why="Only Ampere and newer do so; V100 retires pages instead.",
        )
    if pending is None or failed is None or rows is None:
        return Finding("unknown", "only a part of the row remapper's state is reported")
    if rows:
        return Finding(
            "info",
            f"{rows} bad rows of its memory have been replaced",
            why="The card has healed itself; watch whether it becomes more.",
        )
    return Finding("ok", "no rows had to be replaced")


@Check("retired", needs=(SMI,), fixes=("hands", "buy"))
@reported.each_card("few or no memory pages are retired", evidence=r"retired_pages/")
def retired(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """Few memory pages are retired, and none waits.

    Reads the retired pages of cards with ECC up to Volta. A page that waits for a reset is a
    warning, and so are 15 retired pages (DCGM's soft limit); 63 (its hard limit; there is room for
    64) fail. Newer cards and GeForce do not answer: skipped.
    """
    counts = (smi.retired_single, smi.retired_double)
    pages = sum(count for count in counts if count is not None)
    if pages >= TOO_MANY_RETIRED:
        return Finding("fail", f"{pages} pages of memory are retired", fix=_REPLACE)
    if smi.retired_pending:
        return Finding("warn", "a bad page waits for a reset to be retired", fix=_RESET)
    if pages >= MANY_RETIRED:
        return Finding(
            "warn",
            f"{pages} pages of memory are retired; there is room for 64",
            why="The memory goes bad page by page. Look every week how many there are.",
            fix=_REPLACE,
        )
    if counts == (None, None) and smi.retired_pending is None:
        is_newer = card.model is not None and card.model.architecture not in _NEVER_REMAPS
        return NotReported(
            "these cards retire no pages, or do not report them",
            expected=is_newer or reported.is_geforce(card),
            why="Cards with ECC up to Volta do so; newer ones replace rows.",
        )
    if None in counts or smi.retired_pending is None:
        return Finding("unknown", "only a part of the retired pages is reported")
    return Finding("ok", f"{pages} pages retired")


@Check("inforom", needs=(SMI,), fixes=("hands",))
def inforom(examined: Examined) -> Finding:
    """No card's infoROM is corrupted.

    Known lines tell that it is: the small memory in which a card keeps its serial number, its
    limits and its error counts. Without it the other checks of this group cannot be trusted. A
    complete report without such a line is ok.
    """
    return reported.gap(examined) or Finding("ok", "no card's infoROM is corrupted")


@Check("ecc.vol", needs=(SMI,), fixes=("hands",))
@reported.each_card(
    "no uncorrected memory errors since the reset",
    evidence=r"ecc_errors/volatile/.*(uncorr|double_bit/total)",
)
def volatile(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """No uncorrected memory errors since the last reset.

    Reads the volatile ECC counters. One uncorrected error is a failure: data was wrong. Cards
    without ECC, such as GeForce, and cards with ECC switched off count nothing and are skipped,
    never ok.
    """
    errors = smi.ecc_volatile_uncorrected
    if errors is None:
        return _no_ecc(card, smi)
    if errors:
        return Finding(
            "fail",
            f"{errors} memory errors that ECC could not correct since the last reset",
            why="A program has got wrong data, or was ended because of it.",
            data={"errors": errors},
            fix=_RESET,
        )
    return Finding("ok", "no uncorrected errors")


@Check("ecc.agg", needs=(SMI,), fixes=("buy",))
@reported.each_card(
    "no uncorrected memory errors in the cards' lives",
    evidence=r"ecc_errors/aggregate/.*(uncorr|double_bit/total)",
)
def aggregate(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """Few uncorrected memory errors in a card's life.

    Reads the aggregate ECC counters, which survive reboots. More than 4 uncorrected errors fail:
    operators of large clusters then replace a card; 1 to 4 are information. Cards without ECC are
    skipped.
    """
    errors = smi.ecc_aggregate_uncorrected
    if errors is None:
        return _no_ecc(card, smi)
    if errors > MOST_AGGREGATE:
        return Finding(
            "fail",
            f"{errors} uncorrected memory errors in the card's life",
            data={"errors": errors},
            fix=_REPLACE,
        )
    if errors:
        return Finding(
            "info",
            f"{errors} uncorrected memory errors in the card's life",
            why=f"Up to {MOST_AGGREGATE} are borne; watch whether it becomes more.",
        )
    return Finding("ok", "no uncorrected errors")


@Check("ecc.corr", needs=(SMI,), fixes=("hands",))
@reported.each_card(
    "few or no corrected memory errors", evidence=r"ecc_errors/aggregate/.*(_corr|single_bit/total)"
)
def corrected(_: Examined, card: Card, smi: SmiGpu) -> Finding | NotReported:
    """No flood of corrected memory errors.

    Reads the aggregate count of errors that ECC has corrected. Some are normal; 50 million, where
    cluster operators take a card out, are a warning. Their growth matters more than their number.
    Cards without ECC are skipped.
    """
    errors = smi.ecc_aggregate_corrected
    if errors is None:
        return _no_ecc(card, smi)
    if errors >= MOST_CORRECTED:
        return Finding(
            "warn",
            f"{errors} corrected memory errors in the card's life",
            why="Each was corrected. So many mean that the memory is worn or too hot.",
            data={"errors": errors},
            fix=fix_by_hand(
                "cool the card better, and note the number: if it grows by the day, have "
                "the card replaced"
            ),
        )
    return Finding("ok", f"{errors} corrected errors")


def _no_ecc(card: Card, smi: SmiGpu) -> Finding | NotReported:
    if smi.ecc:
        return Finding("unknown", "ECC is on, and its counters are not reported")
    if smi.ecc is False:
        return Finding("skipped", _NO_ECC, why=_NO_ECC_WHY)
    has_none = card.model is not None and not card.model.ecc
    return NotReported(_NO_ECC, _NO_ECC_WHY, expected=has_none or reported.is_geforce(card))
