"""What a person agreed to when the plan had been shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rigops.converge.occupants import Occupants

PreflightWhen = Literal["auto", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """`removals`: whether concerns that nobody declares any more are taken back."""

    removals: bool = False
    reboots: frozenset[str] = frozenset()  # hosts
    busy: bool = False  # interrupt GPU jobs
    wedged: bool = False  # force a host down whose shutdown may block
    untried: bool = False  # make kernel arguments permanent that no boot can try first
    preflight: PreflightWhen = "auto"
    at_once: int = 1  # hosts that are rebooted at the same time


def not_now(who: Occupants, agreement: Agreement) -> str:
    """Why a host is not rebooted although that was agreed to, or nothing."""
    if who.busy_gpus and not agreement.busy:
        jobs = ", ".join(map(str, who.busy_gpus))
        return f"no reboot while GPU jobs run ({jobs}): wait for them, or --allow-busy"
    if who.wedged and not agreement.wedged:
        return (
            "processes hang in the driver, so that shutdown itself may block: with "
            "--force-reboot-wedged the machine is forced down where it does not go by itself"
        )
    return ""
