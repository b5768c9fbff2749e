"""Several hosts: a line each, the circuits that they share, and all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rigops.report.power_words import COLORS, WORDS, bar, bar_cells, rule, share_text
from rigops.report.terminal import styled, visible
from rigops.report.words import wrapped

if TYPE_CHECKING:
    from rigops.power.report import PowerReport, SharedCircuit


def table(reports: Sequence[PowerReport], width: int) -> Iterator[str]:
    name = max(len("host"), *(len(one.host) for one in reports))
    word = max(len(WORDS[one.status]) for one in reports)
    yield f"{'host':<{name}}  {'budget':<{word}}  {'wall':>6}  {'a day':>9}  worst"
    for one in reports:
        found = one.energy
        watts = f"{found.busy_watts:.0f} W" if found else "?"
        used = f"{found.kwh_per_day:.1f} kWh" if found else "?"
        state = styled(f"{WORDS[one.status]:<{word}}", fg=COLORS[one.status])
        plain = len(f"{one.host:<{name}}  {WORDS[one.status]:<{word}}  ")
        about = wrapped(
            f"{'x' * (plain - 1)} {watts:>6}  {used:>9}  {_worst(one)}".rstrip(),
            width,
            "",
            hanging=" " * (plain + 19),
        )
        yield f"{visible(one.host):<{name}}  {state}  {about[0][plain:]}"
        yield from about[1:]


def _worst(report: PowerReport) -> str:
    excesses = report.budget.excesses or (report.now.excesses if report.status == "warn" else ())
    if excesses:
        most = max(excesses, key=lambda one: one.watts / one.allowed)
        where = most.where.partition(" (with ")[0]
        return f"{where} {most.watts:.0f} of {most.allowed:.0f} W"
    away = "not reached: from the inventory" if report.error else ""
    return "; ".join(filter(None, (away, *report.doubts[:1]))) or "-"


def shared_circuit(one: SharedCircuit, width: int) -> Iterator[str]:
    wall = one.wall
    label = f"circuit {visible(one.circuit.name)}"
    word = WORDS[one.status]
    drawn = bar(wall.allowed, wall.watts, wall.watts, bar_cells(width))
    used = f"{wall.watts:.0f} of {wall.allowed:.0f} W"
    if not all(share.is_known for share in one.shares):
        used = f"at least {used}"
    yield f"{styled(label, bold=True)}  {styled(word, fg=COLORS[one.status], bold=True)}"
    yield from wrapped(f"{drawn}  {used} {rule(wall)}", width, "  ", hanging="  ")
    for share in one.shares:
        how = "" if share.is_reached else " (not asked: from the inventory and the catalog)"
        yield from wrapped(f"{share_text(share)}{how}", width, "  ", hanging="  ")


def total(reports: Sequence[PowerReport]) -> str:
    known = [one.energy for one in reports if one.energy]
    watts, kwh = sum(one.busy_watts for one in known), sum(one.kwh_per_day for one in known)
    parts = [f"{len(known)} hosts: {watts:.0f} W at these limits, {kwh:.1f} kWh a day"]
    costs = [one.cost_per_day for one in known if one.cost_per_day is not None]
    if costs and len(costs) == len(known):
        parts.append(f"{sum(costs):.2f} a day")
    if len(known) < len(reports):
        parts.append(f"{len(reports) - len(known)} unknown")
    return "; ".join(parts)
