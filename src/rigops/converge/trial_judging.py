"""Whether a boot that tried new kernel arguments held, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.kernel_arguments import read_arguments
from rigops.record.trial_boot import CONFIRMED, MARK, outcome

if TYPE_CHECKING:
    from rigops.converge.snapshot import RunSnapshot

CONFIRM: Final = ("sh", "-c", f"mkdir -p {CONFIRMED.rpartition('/')[0]} && : >{CONFIRMED}")


def is_trial(snapshot: RunSnapshot) -> bool:
    return snapshot.command_line is not None and MARK in snapshot.command_line.arguments


def lost(now: RunSnapshot) -> str:
    """Why a trial boot that another run has ordered does not become permanent, or nothing."""
    if not is_trial(now) or now.state is None:
        return ""
    record = read_arguments(now.state.records.get(ARGUMENTS))
    gone = set(record.cards) - _cards(now)
    if not gone:
        return ""
    return (
        f"it runs with {' '.join(record.trying)} to try that, and {_listed(gone)} gone with it: "
        "reboot it, or wait until it goes back to its old arguments by itself; then run this again"
    )


def cards(snapshot: RunSnapshot) -> tuple[str, ...]:
    return tuple(sorted(_cards(snapshot)))


def shortfall(before: RunSnapshot, now: RunSnapshot, arguments: tuple[str, ...]) -> str:
    """Why the arguments do not become permanent, or nothing. `before`: seen ahead of the boot."""
    live = now.command_line.arguments if now.command_line else ()
    absent = [one for one in arguments if one not in live]
    if absent:
        return f"the host does not run with {' '.join(absent)}"
    gone = _cards(before) - _cards(now)
    if gone:
        return f"{_listed(gone)} gone with them"
    return ""


def success(arguments: tuple[str, ...]) -> str:
    return f"the boot with {' '.join(arguments)} was tried and works: it is permanent now"


def after_this(arguments: tuple[str, ...], deadline_s: float) -> str:
    """For the machine that the run is on, which ends with it."""
    if not arguments:
        return "this machine reboots now; run the same command after that"
    return (
        f"this machine reboots now, to try {' '.join(arguments)}: run the same command within "
        f"{deadline_s / 60:g} minutes, or it goes back to its old arguments by itself"
    )


def failure(arguments: tuple[str, ...], reason: str, log: str) -> Iterator[str]:
    """`log`: what the boot that was tried has left behind."""
    yield f"one boot tried {' '.join(arguments)}: {outcome(log)}"
    yield f"{reason}: its old arguments are in force, and nothing of the new ones is left"


def _listed(gone: set[str]) -> str:
    return f"{', '.join(sorted(gone))} {'is' if len(gone) == 1 else 'are'}"


def _cards(snapshot: RunSnapshot) -> set[str]:
    return {card.address for card in snapshot.silicon.gpus} if snapshot.silicon else set()
