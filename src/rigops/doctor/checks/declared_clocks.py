"""Whether the cards have the clocks that are declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import per_gpu, reported
from rigops.doctor.views.reported import Verdict
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.views.cards import Card
    from rigops.inventory.spec.model import Clocks
    from rigops.probe.sections.nvidia_smi_xml import SmiGpu

DECLARED = "clk.app"

# One step of the boost clock; nvidia-smi rounds to steps.
STEP_MHZ: Final = 15
# Below this utilisation a card may clock down as it likes.
BUSY_PERCENT: Final = 50

_KEY = "gpu_clocks"
_DECLARED_EVIDENCE: Final = re.compile(r"(^|/)(applications_)?clocks/")


@Check("clk.app", needs=(SMI,), fixes=("apply",), keys=frozenset({_KEY}))
def declared(examined: Examined) -> Finding | list[Finding]:
    """The cards have the declared clocks.

    Compares `gpu_clocks` with each card. The driver reports application clocks, which must be equal
    (V100: 877,1005). Locked clocks are not reported: a clock above the declared maximum is a
    warning, one within it under load is well, and at idle it cannot be seen, which is skipped. So
    it is without a declaration.
    """
    wishes = examined.spec.gpu_clocks
    if wishes is None:
        return Finding("skipped", "gpu_clocks is not declared")

    def judge(card: Card, smi: SmiGpu) -> Verdict:
        choice = per_gpu.choose(wishes, card, examined.cards)
        if not choice.is_certain:
            return Verdict(
                status="unknown",
                summary="gpu_clocks names cards by UUID, and which is this one is not known",
            )
        if choice.value is None:
            return Verdict(status="skipped", summary="no clocks are declared for this card")
        if choice.value.application_mhz:
            return _application(examined, card, smi, choice.value.application_mhz)
        return _locked(examined, card, smi, choice.value)

    return reported.judge_cards(
        examined, judge, "the cards run at the declared clocks", evidence=_DECLARED_EVIDENCE
    )


def _application(examined: Examined, card: Card, smi: SmiGpu, wanted: tuple[int, int]) -> Verdict:
    memory, graphics = smi.mhz_application_memory, smi.mhz_application_graphics
    if memory is None or graphics is None:
        return Verdict(
            status="unknown",
            summary="application clocks are declared, and this card reports none",
            why="GeForce cards and new drivers do not have them: graphics=LOW,HIGH does the same.",
        )
    if (memory, graphics) == wanted:
        return Verdict(status="ok", summary=f"application clocks {memory},{graphics} MHz")
    return Verdict(
        status="warn",
        summary=f"application clocks {wanted[0]},{wanted[1]} MHz are declared, and "
        f"{memory},{graphics} MHz are set",
        why="The driver forgets them at a reboot. V100 modules need such a cap where power limits "
        "do not hold their peaks.",
        fix=_apply(examined, f"nvidia-smi -i {card.address} -ac {wanted[0]},{wanted[1]}"),
    )


def _locked(examined: Examined, card: Card, smi: SmiGpu, wanted: Clocks) -> Verdict:
    """The driver does not tell a lock, only where the clock is now."""
    clocks = (
        ("graphics", "lgc", wanted.graphics_mhz, smi.mhz_graphics),
        ("memory", "lmc", wanted.memory_mhz, smi.mhz_memory),
    )
    busy = (smi.utilization_percent or 0) >= BUSY_PERCENT
    for name, option, limits, live in clocks:
        if limits is None:
            continue
        if live is None:
            return Verdict(status="unknown", summary=f"the {name} clock is not reported")
        low, high = limits
        if live > high + STEP_MHZ:
            return Verdict(
                status="warn",
                summary=f"the {name} clock is {live} MHz; no more than {high} MHz is declared",
                why="A lock is gone after a reboot and whenever the driver is unloaded.",
                fix=_apply(examined, f"nvidia-smi -i {card.address} -{option} {low},{high}"),
            )
    if busy:
        return Verdict(status="ok", summary="under load, and within the declared clocks")
    return Verdict(
        status="skipped",
        summary="idle, and within the declared clocks: whether they are locked shows under load",
        why="The driver does not report a lock, only how fast the card runs now.",
    )


def _apply(examined: Examined, by_hand: str) -> Fix:
    wishes = examined.spec.gpu_clocks
    return Fix(
        kind="apply",
        concern="gpu_tuning",
        declare={_KEY: per_gpu.declaration(wishes, _written)} if wishes else None,
        text="`rigops apply` sets the clocks now and at every boot",
        by_hand=f"`nvidia-smi -pm 1`, then `{by_hand}`; and a systemd unit that does the same "
        "after nvidia-persistenced.service",
    )


def _written(clocks: Clocks) -> str:
    named = (
        ("graphics", clocks.graphics_mhz),
        ("memory", clocks.memory_mhz),
        ("application", clocks.application_mhz),
    )
    return " ".join(f"{name}={pair[0]},{pair[1]}" for name, pair in named if pair)
