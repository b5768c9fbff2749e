"""Common parts of checks of programs' outputs: a hang, a fix, and runs that prove nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.section import Section

SHOWN_LINES: Final = 4

HANG: Final = (
    "A hang looks like this: copies between the cards wait for ever and the program prints nothing "
    "more. It may also have been stopped, or copied in part."
)
REFUSED: Final = (
    "Copies between these cards go through the host's memory, which is slower and works. The "
    "driver offers no P2P over PCIe on GeForce cards, and offers it on other cards only where the "
    "platform allows it."
)
UNPROVEN: Final = (
    "It never compares the copied data: fast copies may still be wrong. `rigops preflight` moves "
    "data between the cards and compares it."
)
FIX: Final = fix_by_hand(
    "an IOMMU that translates or ACS that redirects between the cards is the usual cause: "
    "`rigops doctor` of the host names it. Until `rigops preflight` passes, export "
    "NCCL_P2P_DISABLE=1 for what trains on several cards"
)


def cited(section: Section[Any], lines: Iterable[str]) -> tuple[Evidence, ...]:
    """The first of them that are not empty."""
    return tuple(Evidence(section.name, line) for line in islice(filter(None, lines), SHOWN_LINES))


def pair_name(pair: tuple[int, int]) -> str:
    return f"GPU{pair[0]} to GPU{pair[1]}"


def without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Several runs in one paste mostly end alike."""
    return list({(one.status, one.summary): one for one in reversed(findings)}.values())[::-1]
