"""The power of hosts in lines: a bar for each supply and circuit, the wall, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rigops.power import EFFICIENCY, STEADY_SHARE, Energy, Load
from rigops.power.budget import BOARD_WATTS, CPU_WATTS
from rigops.power.energy import IDLE_SHARE, IDLE_WATTS
from rigops.probe.lost_cards import ADVICE
from rigops.report.power_words import (
    COLORS,
    OVER,
    WORDS,
    bar,
    bar_cells,
    cards,
    fed,
    limited,
    of_supply,
    of_wall,
    rule,
    share_text,
    short,
)
from rigops.report.terminal import styled, visible
from rigops.report.words import wrapped

if TYPE_CHECKING:
    from rigops.power.report import PowerReport, SharedCircuit

_AT_LEAST: Final = "at least "
_MOST_BLOCKS: Final = 3  # hosts; of more there is a line each


def power_lines(
    reports: Sequence[PowerReport],
    circuits: Sequence[SharedCircuit],
    width: int,
    *,
    verbose: bool,
) -> list[str]:
    lines: list[str] = []
    if len(reports) > _MOST_BLOCKS and not verbose:
        lines += _table(reports, width)
    else:
        for report in reports:
            lines += ["", *_host(report, width, verbose=verbose)]
    shared = [one for one in circuits if len(one.shares) > 1]
    for one in shared:
        lines += ["", *_shared_circuit(one, width)]
    if len(reports) > 1:
        lines += ["", *wrapped(_total(reports), width, "", hanging="  ")]
    return lines[1:] if lines and not lines[0] else lines


def _host(report: PowerReport, width: int, *, verbose: bool) -> Iterator[str]:
    yield from _head(report, width)
    cells = bar_cells(width)
    rows = [*_budget_rows(report, cells), *other_rows(report)]
    if verbose:
        rows += [(short(load.address), _card(load)) for load in report.power.loads]
        rows.append(("assumed", _ASSUMED))
    column = max(len(label) for label, _ in rows)
    for label, text in rows:
        yield from _row(label, text, column, width)
    if fix := fix_text(report):
        yield from wrapped(f"fix: {fix}", width, "  ", hanging="     ")


def _budget_rows(report: PowerReport, cells: int) -> Iterator[tuple[str, str]]:
    """The bars; where apply is still owed, what is over until then too."""
    supplies, walls = report.budget.supplies, report.budget.walls
    is_owed = report.status == "warn"
    for supply, now in zip(supplies, report.now.supplies, strict=True):
        drawn = bar(supply.watts, supply.steady, supply.peak, cells)
        least = _AT_LEAST if is_at_least(report, supply.loads) else ""
        yield supply.name.replace(" and PSU ", "+"), f"{drawn}  {least}{of_supply(supply)}"
        if len(supplies) > 1:
            yield "", fed(supply)
        if is_owed and OVER in of_supply(now):
            yield "", f"now {of_supply(now)}"
    for wall, now_wall in zip(walls, report.now.walls, strict=True):
        drawn = bar(wall.allowed, wall.watts, wall.watts, cells)
        least = _AT_LEAST if is_at_least(report, report.power.loads) else ""
        yield wall.where.removeprefix("the "), f"{drawn}  {least}{of_wall(wall)}"
        if is_owed and OVER in of_wall(now_wall):
            yield "", f"now {of_wall(now_wall)}"


def is_at_least(report: PowerReport, loads: Iterable[Load]) -> bool:
    """Whether the sum of these misses some."""
    return bool(report.power.gap) or any(load.watts is None for load in loads)


def other_rows(report: PowerReport) -> Iterator[tuple[str, str]]:
    texts = (
        ("rest", _rest(report)),
        *(("unknown", doubt) for doubt in report.doubts),
        ("wall", _at_the_wall(report)),
        ("energy", _energy(report.energy) if report.energy else ""),
        ("limit", _limit(report)),
        *(("note", note) for note in report.notes),
    )
    return ((label, text) for label, text in texts if text)


def _row(label: str, text: str, column: int, width: int) -> list[str]:
    first = f"  {label:<{column}}  "
    return wrap(
        visible(text),
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _head(report: PowerReport, width: int) -> list[str]:
    word = WORDS[report.status]
    about = cards(report.power.loads) or ("no cards" if not report.power.gap else "")
    if report.error:
        reason = f"not reached ({report.error.message}): from the inventory and the catalog"
        about = "; ".join(filter(None, (about, reason)))
    first, *rest = wrapped(f"{report.host}  {word}  {about}".rstrip(), width, "", hanging="  ")
    plain = f"{visible(report.host)}  {word}"
    if first.startswith(plain):
        name = styled(report.host, bold=True)
        state = styled(word, fg=COLORS[report.status], bold=True)
        first = f"{name}  {state}{first.removeprefix(plain)}"
    return [first, *rest]


def _rest(report: PowerReport) -> str:
    feeds = report.power.feeds
    if feeds.other_watts is not None:
        return f"{feeds.host_watts:.0f} W for all but the cards, as declared"
    return (
        f"{feeds.host_watts:.0f} W for all but the cards: CPU {CPU_WATTS:.0f}, board and disks "
        f"{BOARD_WATTS:.0f} (estimates; declare other_watts)"
    )


def _at_the_wall(report: PowerReport) -> str:
    found, measured = report.energy, report.measured_watts
    parts = []
    if found:
        parts.append(f"{found.busy_watts:.0f} W at these limits, {found.idle_watts:.0f} W idle")
    if measured is not None:
        many = len([one for one in report.measured if one.watts is not None])
        source = "the UPS measures" if many == 1 else f"{many} UPSes measure"
        parts.append(f"{source} {measured:.0f} W now")
    parts += [
        f"UPS {one.ups}: {one.lines[0] if one.lines else 'no answer'}"
        for one in report.measured
        if one.watts is None
    ]
    return "; ".join(parts)


def _energy(found: Energy) -> str:
    used = (
        f"{found.kwh_per_day:.1f} kWh a day, {found.kwh_per_month:.0f} kWh a month at "
        f"{found.duty_percent:g} % duty"
    )
    if found.cost_per_day is None or found.cost_per_month is None:
        return f"{used} (declare electricity_price for the cost)"
    return (
        f"{used}: {found.cost_per_day:.2f} a day, {found.cost_per_month:.2f} a month at "
        f"{found.price:g} a kWh"
    )


def _limit(report: PowerReport) -> str:
    limit, loads = report.equal_limit, report.power.loads
    if not report.power.feeds.are_declared or limit.is_unknown:
        return ""
    unsure = "" if limit.has_range else "; what the cards accept is not known"
    if limit.watts is not None:
        most = [load.most_watts for load in loads if load.most_watts is not None]
        is_most = bool(most) and limit.watts == int(min(most))
        full = ", which is all that the cards take" if is_most else ""
        return f"{limit.watts} W is the highest equal limit that fits{full}{unsure}"
    least = max((load.least_watts for load in loads if load.least_watts is not None), default=None)
    takes = f": the cards take no less than {least:g} W" if least is not None else ""
    return f"no equal limit fits{takes}{unsure}"


def fix_text(report: PowerReport) -> str:
    if report.power.lost:
        return ADVICE
    if report.status == "warn":
        return "rigops apply"
    if report.status == "fail":
        watts = report.equal_limit.watts
        if watts is not None:
            return f'"gpu_power_limit": {watts}    (apply), or a larger supply or circuit'
        return "larger supplies, or the cards spread over more of them and over more circuits"
    if report.status == "skipped":
        return (
            'declare your supplies and circuits, such as "psus": [750, 750], "circuits": '
            '"120V/15A", to see whether they carry this'
        )
    return ""


def _card(load: Load) -> str:
    least = f"{load.least_watts:g}" if load.least_watts is not None else "?"
    most = f"{load.most_watts:g}" if load.most_watts is not None else "?"
    peak = f"{load.peak:.0f} W in peaks (x {load.spike_factor:g})" if load.watts else ""
    idle = f"{load.watts_idle:g} W idle" if load.watts_idle is not None else ""
    parts = (f"{load.name} {limited(load)}", peak, f"accepts {least} to {most} W", idle, load.note)
    return "; ".join(part for part in parts if part)


_ASSUMED: Final = (
    f"supplies waste {1 - EFFICIENCY:.0%}; a supply carries {STEADY_SHARE:.0%} of its watts for "
    f"hours and all of them in peaks; idle is {IDLE_WATTS:.0f} W for a card that does not report "
    f"it, and {IDLE_SHARE:.0%} of the rest; a month has 30 days"
)


def _table(reports: Sequence[PowerReport], width: int) -> Iterator[str]:
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
            f"{'x' * (plain - 1)} {watts:>6}  {used:>9}  {worst_text(one)}".rstrip(),
            width,
            "",
            hanging=" " * (plain + 19),
        )
        yield f"{visible(one.host):<{name}}  {state}  {about[0][plain:]}"
        yield from about[1:]


def worst_text(report: PowerReport) -> str:
    excesses = report.budget.excesses or (report.now.excesses if report.status == "warn" else ())
    if excesses:
        most = max(excesses, key=lambda one: one.watts / one.allowed)
        where = most.where.partition(" (with ")[0]
        return f"{where} {most.watts:.0f} of {most.allowed:.0f} W"
    away = "not reached: from the inventory" if report.error else ""
    return "; ".join(filter(None, (away, *report.doubts[:1]))) or "-"


def _shared_circuit(one: SharedCircuit, width: int) -> Iterator[str]:
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


def _total(reports: Sequence[PowerReport]) -> str:
    known = [one.energy for one in reports if one.energy]
    watts, kwh = sum(one.busy_watts for one in known), sum(one.kwh_per_day for one in known)
    parts = [f"{len(known)} hosts: {watts:.0f} W at these limits, {kwh:.1f} kWh a day"]
    costs = [one.cost_per_day for one in known if one.cost_per_day is not None]
    if costs and len(costs) == len(known):
        parts.append(f"{sum(costs):.2f} a day")
    if len(known) < len(reports):
        parts.append(f"{len(reports) - len(known)} unknown")
    return "; ".join(parts)
