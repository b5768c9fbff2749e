"""What the cards have done about bad memory, and whether they can tell at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check, Examined
from rigops.doctor.checks import ecc
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import reported
from rigops.doctor.views.reported import Verdict
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.views.cards import Card
    from rigops.probe.smi.report import SmiGpu

REMAP, RETIRED, INFOROM = "remap", "retired", "inforom"

MOST_REMAPPED: Final = 512  # rows a card can replace
MANY_RETIRED: Final = 15  # DCGM's soft limit of retired pages
TOO_MANY_RETIRED: Final = 63  # DCGM's hard limit; 64 is all that there is room for

_INFOROM = re.compile(r"infoROM (?:is )?corrupt|corrupt\w* infoROM", re.IGNORECASE)
_NEVER_REMAPS = frozenset({"Kepler", "Maxwell", "Pascal", "Volta", "Turing"})
_REMAP_EVIDENCE: Final = re.compile(r"remapped_rows/")
_RETIRED_EVIDENCE: Final = re.compile(r"retired_pages/")


@Check("remap", needs=(SMI,), fixes=("hands", "buy"))
def remap(examined: Examined) -> list[Finding]:
    """No memory row waits to be replaced, and none could not be.

    Reads the row remapper of Ampere and newer cards: they replace bad rows of their memory by spare
    ones. Pending is a warning until the next reset or reboot; a failed replacement, or all 512
    spare rows used, means that the card must be replaced. Older cards do not answer: skipped.
    """

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        pending, failed, rows = smi.remap_pending, smi.remap_failed, smi.remapped_uncorrected
        is_full = rows is not None and rows >= MOST_REMAPPED
        if failed or is_full:
            return Verdict(
                status="fail",
                summary=f"all {rows} spare rows of its memory are used up"
                if is_full
                else "a bad row of its memory could not be replaced by a spare one",
                fix=ecc.REPLACE,
            )
        if pending:
            return Verdict(
                status="warn",
                summary="a bad row of its memory will be replaced at the next reset",
                why="Until then the card works with the bad row.",
                fix=ecc.RESET,
            )
        if pending is None and failed is None:
            is_old = card.model is not None and card.model.architecture in _NEVER_REMAPS
            return Verdict(
                status="not_reported",
                expected=is_old or reported.is_geforce(card),
                summary="these cards do not replace rows of their memory, or do not report it",
                why="Only Ampere and newer do so; V100 retires pages instead.",
            )
        if pending is None or failed is None or rows is None:
            return Verdict(
                status="unknown", summary="only a part of the row remapper's state is reported"
            )
        if rows:
            return Verdict(
                status="info",
                summary=f"{rows} bad rows of its memory have been replaced",
                why="The card has healed itself; watch whether it becomes more.",
            )
        return Verdict(status="ok", summary="no rows had to be replaced")

    return reported.judge_cards(
        examined, judge, "no memory row waits to be replaced", evidence=_REMAP_EVIDENCE
    )


@Check("retired", needs=(SMI,), fixes=("hands", "buy"))
def retired(examined: Examined) -> list[Finding]:
    """Few memory pages are retired, and none waits.

    Reads the retired pages of cards with ECC up to Volta. A page that waits for a reset is a
    warning, so are 15 retired pages (DCGM's soft limit); 63 (its hard limit; there is room for 64)
    fail. Newer cards and GeForce do not answer: skipped.
    """

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        counts = (smi.retired_single, smi.retired_double)
        pages = sum(count for count in counts if count is not None)
        if pages >= TOO_MANY_RETIRED:
            return Verdict(
                status="fail", summary=f"{pages} pages of memory are retired", fix=ecc.REPLACE
            )
        if smi.retired_pending:
            return Verdict(
                status="warn",
                summary="a bad page waits for a reset to be retired",
                fix=ecc.RESET,
            )
        if pages >= MANY_RETIRED:
            return Verdict(
                status="warn",
                summary=f"{pages} pages of memory are retired; there is room for 64",
                why="The memory goes bad page by page. Look every week how many there are.",
                fix=ecc.REPLACE,
            )
        if counts == (None, None) and smi.retired_pending is None:
            is_newer = card.model is not None and card.model.architecture not in _NEVER_REMAPS
            return Verdict(
                status="not_reported",
                expected=is_newer or reported.is_geforce(card),
                summary="these cards retire no pages, or do not report them",
                why="Cards with ECC up to Volta do so; newer ones replace rows.",
            )
        if None in counts or smi.retired_pending is None:
            return Verdict(status="unknown", summary="only a part of the retired pages is reported")
        return Verdict(status="ok", summary=f"{pages} pages retired")

    return reported.judge_cards(
        examined, judge, "few or no memory pages are retired", evidence=_RETIRED_EVIDENCE
    )


@Check("inforom", needs=(SMI,), fixes=("hands",))
def inforom(examined: Examined) -> Finding:
    """No card's infoROM is corrupted.

    Looks for nvidia-smi's warning that the infoROM is corrupted: the small memory in which a card
    keeps its serial number, its limits and its error counts. Without it the other checks of this
    group cannot be trusted. Well is a whole report without one.
    """
    report = examined.snapshot[SMI].value
    said = [*report.warnings, *report.failure_lines, *report.unparsed] if report else []
    for gpu in report.gpus if report else ():
        said += gpu.troubles
    corrupt = tuple(Evidence(SMI.name, line) for line in said if _INFOROM.search(line))
    if corrupt:
        return Finding(
            "warn",
            "the infoROM of a card is corrupted",
            corrupt,
            why="The card keeps its serial number, limits and error counts there: what it says "
            "of them may be wrong.",
            fix=Fix(
                kind="hands",
                text="power off and on; if it stays, the maker of the card can write it anew, "
                "or replaces the card",
            ),
        )
    missing = reported.gap(examined)
    if missing:
        return Finding("unknown", missing.summary, missing.evidence)
    return Finding("ok", "no card's infoROM is corrupted")
