"""A boot that tried new kernel arguments: whether they held, and what there is to tell. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.bootloader.trial import CONFIRMED, LOG, MARK
from rigops.bootloader.trial_log import became
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.arguments import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.seeing import Sight

__all__ = [
    "CONFIRM",
    "LOG",
    "MARGIN_S",
    "after_this",
    "cards",
    "held",
    "is_trial",
    "lost",
    "shortfall",
    "story",
]

CONFIRM: Final = ("sh", "-c", f"mkdir -p {CONFIRMED.rpartition('/')[0]} && : >{CONFIRMED}")

MARGIN_S: Final = 120.0  # beside the trial's own deadline and that of the boot which follows it


def is_trial(seen: Sight) -> bool:
    return seen.command_line is not None and MARK in seen.command_line.arguments


def lost(now: Sight) -> str:
    """Why a trial boot that another run has ordered does not become permanent, or nothing."""
    if not is_trial(now) or now.state is None:
        return ""
    record = arguments(now.state.records.get(ARGUMENTS))
    gone = set(record.cards) - _cards(now)
    if not gone:
        return ""
    return (
        f"it runs with {' '.join(record.trying)} to try that, and {_listed(gone)} gone with it: "
        "reboot it, or wait until it goes back to its old arguments by itself; then run this again"
    )


def cards(seen: Sight) -> tuple[str, ...]:
    return tuple(sorted(_cards(seen)))


def shortfall(before: Sight, now: Sight, trying: tuple[str, ...]) -> str:
    """Why the arguments do not become permanent, or nothing. `before`: seen ahead of the boot."""
    live = now.command_line.arguments if now.command_line else ()
    absent = [one for one in trying if one not in live]
    if absent:
        return f"the host does not run with {' '.join(absent)}"
    gone = _cards(before) - _cards(now)
    if gone:
        return f"{_listed(gone)} gone with them"
    return ""


def held(trying: tuple[str, ...]) -> str:
    return f"the boot with {' '.join(trying)} was tried, and holds: every boot has it now"


def after_this(trying: tuple[str, ...], deadline_s: float) -> str:
    """For the machine that the run is on, which ends with it."""
    if not trying:
        return "this machine reboots now; run the same command after that"
    return (
        f"this machine reboots now, to try {' '.join(trying)}: run the same command within "
        f"{deadline_s / 60:g} minutes, or it goes back to its old arguments by itself"
    )


def story(trying: tuple[str, ...], reason: str, log: str) -> Iterator[str]:
    """`log`: what the boot that was tried has left behind."""
    yield f"one boot tried {' '.join(trying)}: {became(log)}"
    yield f"{reason}: its old arguments are in force, and nothing of the new ones is left"


def _listed(gone: set[str]) -> str:
    return f"{', '.join(sorted(gone))} {'is' if len(gone) == 1 else 'are'}"


def _cards(seen: Sight) -> set[str]:
    return {card.address for card in seen.silicon.gpus} if seen.silicon else set()
