"""What has changed since the baseline of the host was taken."""

from __future__ import annotations

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views.changes import SECTION, Change, changes, is_other_machine, missing
from rigops.doctor.views.observed import NEEDS, observed
from rigops.record.baseline import Baseline

_SHOWN = 3
_OTHER = (
    "None of its network cards and GPUs is one of the baseline's. A bundle that was saved without "
    "names has other ones, too."
)
_TAKE = "`rigops doctor HOST --save-baseline` takes one, and so does a passed preflight"


@Check("drift", needs=NEEDS, needs_gpu=False, fixes=("apply", "hands"))
def drift(examined: Examined) -> Finding | list[Finding]:
    """Nothing has got worse since the baseline of the host.

    Compares with the facts that a passed preflight or `--save-baseline` stored on this machine. A
    card that is gone, fewer lanes, NVLinks, memory modules or channels, and counters of
    uncorrected errors that grew are a failure. A lower generation of PCIe, a smaller BAR1, power
    limit or clocks that are back at their default and are not declared, and most other counters
    that grew are a warning; corrected errors of PCIe by their number in a minute; a card that is 15
    °C warmer under load at the same power, too. Another slot, VBIOS, BIOS or driver is information.
    Where another check fails or warns about the same, that one says how it was. Facts that were not
    collected then or now are not compared. Without a baseline it is skipped.
    """
    was = examined.baseline
    if was is None:
        return Finding("skipped", "there is no earlier baseline of this host", why=_TAKE)
    now = observed(examined)
    if is_other_machine(was, now):
        summary = f"the baseline of {was.day} is of another machine, so nothing is compared"
        return Finding("unknown", summary, why=_OTHER, fix=fix_by_hand(_TAKE))
    found = [_finding(one, was) for one in changes(examined)]
    if lacking := missing(was, now):
        left = len(lacking) - _SHOWN
        named = ", ".join(lacking[:_SHOWN]) + (f" and {left} more" if left > 0 else "")
        found.append(
            Finding("unknown", f"not collected, and in the baseline of {was.day}: {named}")
        )
    return found or Finding("ok", f"nothing has changed since the baseline of {was.day}")


def _finding(change: Change, was: Baseline) -> Finding:
    then = Evidence(SECTION, f"{was.at} {change.what}: {change.was}")
    return Finding(
        change.status,
        change.summary(was.day),
        (then, *change.evidence),
        subject=change.subject,
        why=change.why,
        fix=change.fix,
        data={"what": change.what, "was": change.was, "is": change.now, "since": was.at},
    )
