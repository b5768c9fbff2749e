"""The output of gpu_burn that was run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, fix_by_hand
from rigops.doctor.views.program_runs import cited
from rigops.probe.sections.gpu_burn import SECTION as GPU_BURN

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.gpu_burn import Burn

_WHY: Final = (
    "gpu_burn computes the same on each card again and again and compares: a card that is not "
    "damaged, overheated, overclocked or short of power makes no error."
)
_FIX: Final = fix_by_hand(
    "remove overclocking, look at power cables and temperature, and run it with this card "
    "alone (`-i`); if it fails in another slot too, the card is defective. The kernel log of that "
    "time names a Xid: give it to doctor"
)


@Check("bench.burn", needs=(GPU_BURN,), needs_gpu=False, fixes=("hands",))
def burn(examined: Examined) -> list[Finding]:
    """Every card that gpu_burn loaded computed without an error.

    Only where its output was given to doctor. FAULTY, DIED!, and any count of errors are failures,
    and so is a test that did not begin, which gpu_burn itself calls OK. An output that ends before
    its result is unknown.
    """
    answer = examined.snapshot[GPU_BURN]
    if answer.collected is None:
        return []
    return [_judged(answer.or_empty)]


def _judged(found: Burn) -> Finding:
    bad = {index: one.line for one in found.progress for index in one.errors}
    faulty = {index: found.lines[index] for index, is_ok in found.results.items() if not is_ok}
    last = found.progress[-1] if found.progress else None
    if bad or faulty:
        cards = ", ".join(f"GPU{index}" for index in sorted({*bad, *faulty}))
        counts = [count for one in found.progress for count in one.errors.values()]
        how = "stopped computing" if any(map(_has_died, counts)) else "computed wrong results"
        cited_lines = dict.fromkeys([*faulty.values(), *bad.values()])
        return Finding("fail", f"{cards} {how}", cited(GPU_BURN, cited_lines), why=_WHY, fix=_FIX)
    if found.failures:
        lines = [*found.failures, last.line] if last else list(found.failures)
        summary = "gpu_burn could not test a card"
        return Finding("fail", summary, cited(GPU_BURN, lines), why=_WHY, fix=_FIX)
    if last is None:
        return Finding(
            "unknown", "nothing shows that gpu_burn computed", cited(GPU_BURN, found.lines.values())
        )
    if not found.has_ended:
        line = cited(GPU_BURN, [last.line])
        summary = f"the output of gpu_burn ends at {last.percent} %"
        return Finding("unknown", summary, line, essential=True)
    if last.idle:
        cards = ", ".join(f"GPU{index}" for index in sorted(last.idle))
        line = cited(GPU_BURN, [last.line])
        return Finding("unknown", f"{cards}: gpu_burn computed nothing", line)
    hottest = max((one for each in found.progress for one in each.celsius), default=None)
    heat = f", up to {hottest} °C" if hottest is not None else ""
    cards_ok = f"{len(found.results)} card{'s' * (len(found.results) != 1)}"
    return Finding(
        "ok",
        f"{cards_ok} computed without an error{heat}",
        cited(GPU_BURN, [last.line, *found.lines.values()]),
        why="Each card computes alone: nothing is copied between them.",
    )


def _has_died(count: str) -> bool:
    return "DIED" in count
