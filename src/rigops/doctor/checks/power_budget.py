"""Whether the declared power supplies and circuits carry what the cards' limits add up to."""

from __future__ import annotations

from typing import Final

from rigops import power
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status
from rigops.doctor.views import kernel_logs
from rigops.doctor.views.host_power import find_power
from rigops.inventory.spec import choice as per_gpu
from rigops.inventory.spec.gpu import written_limit
from rigops.power import HostPower
from rigops.power.budget import Budget, fitting
from rigops.probe.kernel_log.events import OFF_THE_BUS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.ups import SECTION as UPS

_KEY = "gpu_power_limit"
_SHOWN: Final = 5


@Check(
    "pwr.budget",
    needs=(KERNEL_LOG_PREVIOUS, KERNEL_LOG, SMI, UPS),
    fixes=("apply", "buy"),
    keys=frozenset({"psus", "circuits"}),
)
def limits(examined: Examined) -> Finding:
    """Power supplies and circuits carry the sum of the limits.

    Adds up the power limits of the cards that each declared supply feeds, as `gpu_power_limit` will
    have them once applied, else as they are in force, and `other_watts` for all else, the CPU
    included (without it: 150 W for the CPU and 100 W for the rest). Healthy is up to 90 % of a
    supply for hours, all its watts in peaks (limit times the catalog's spike factor, which comes
    from a 350 W RTX 3090 that drew 600 W), and 80 % of a circuit's volts times amperes, which is
    the code's rule for loads that last; supplies waste 10 %. To a circuit that other hosts of the
    inventory name too, their power is added, by their declarations and the catalog. More is a
    warning, and a failure where a card has fallen off the bus (Xid 79) in this boot or the one
    before. It is a warning too where only the limits in force are too much, and apply brings the
    declared ones. Where NUT answers, the UPS's measurement is evidence. Without psus and circuits:
    skipped.
    """
    spec = examined.spec
    if spec.psus is None and spec.circuits is None:
        return Finding("skipped", "neither psus nor circuits are declared")
    found = find_power(examined)
    others = power.Neighbors(examined.neighbors).shares(examined.catalog)
    budget = found.budget(others)
    if budget.excesses:
        return _over(examined, found, budget)
    if doubts := found.doubts(budget):
        return Finding("unknown", "; ".join(doubts), _measured(examined))
    now = found.budget_now(others)
    if now.excesses:
        return _over_until_applied(examined, now)
    odd = _odd_breakers(examined)
    summary = "; ".join((_sum(budget), _assumed(examined), *odd))
    return Finding("info" if odd else "ok", summary, _measured(examined))


def _over(examined: Examined, found: HostPower, budget: Budget) -> Finding:
    drops = _drops(examined)
    summary = "; ".join(
        (*map(power.describe_excess, budget.excesses), *_odd_breakers(examined))
    ) + (", and a card has fallen off the bus (Xid 79)" if drops else "")
    return Finding(
        "fail" if drops else "warn",
        summary,
        (*drops, *_measured(examined)),
        why="An overloaded supply drops its voltage or switches off: cards fall off the bus or the "
        f"rig reboots under load. Reckoned with {_assumed(examined)}.",
        fix=_fix(found, budget),
        data=_data(budget),
    )


def _over_until_applied(examined: Examined, now: Budget) -> Finding:
    declared = examined.spec.gpu_power_limit
    excesses = "; ".join(map(power.describe_excess, now.excesses))
    return Finding(
        "warn",
        f"{excesses}, until the declared limits are applied, which fit",
        _measured(examined),
        why=f"The limits in force are not those that are declared. {_assumed(examined)}.",
        fix=Fix(
            kind="apply",
            concern="gpu_tuning",
            declare={_KEY: per_gpu.declaration(declared, written_limit)} if declared else None,
            text="`rigops apply` sets the declared limits",
            by_hand="set the declared limits with `nvidia-smi -pl`, at every boot",
        ),
        data=_data(now),
    )


def _data(budget: Budget) -> dict[str, object]:
    return {
        "excesses": [
            {
                "kind": one.kind,
                "where": one.where,
                "watts": round(one.watts),
                "allowed": round(one.allowed),
            }
            for one in budget.excesses
        ]
    }


def _measured(examined: Examined) -> tuple[Evidence, ...]:
    """The UPSes' values; they may feed more than this host."""
    readings = examined.snapshot[UPS].or_empty.readings
    return tuple(Evidence(UPS.name, line) for one in readings for line in one.lines)


def _odd_breakers(examined: Examined) -> tuple[str, ...]:
    said = (power.odd_breaker(circuit) for circuit in examined.spec.circuits or ())
    return tuple(dict.fromkeys(one for one in said if one))


def _drops(examined: Examined) -> tuple[Evidence, ...]:
    found = [
        Evidence(kernel_logs.section_of(which, xid.entry), xid.entry.line)
        for which, xid in kernel_logs.of_both_boots(examined.snapshot, lambda log: log.xids)
        if xid.number == OFF_THE_BUS or xid.bus_drop
    ]
    return tuple(found[:_SHOWN])


def _sum(budget: Budget) -> str:
    supplies = [f"{one.name} {one.steady:.0f} of {one.watts:.0f} W" for one in budget.supplies]
    walls = [
        f"{one.where.removeprefix('the ')} {one.watts:.0f} of {one.allowed:.0f} W"
        for one in budget.walls
    ]
    return ", ".join([*supplies, *walls])


def _assumed(examined: Examined) -> str:
    declared = examined.spec.other_watts
    host = power.Feeds.from_spec(examined.spec).host_watts
    source = "declared" if declared is not None else "an estimate; declare other_watts"
    return f"{host:.0f} W for all but the cards ({source})"


def _fix(found: HostPower, budget: Budget) -> Fix:
    limits = fitting(budget, found.loads)
    if limits is None:
        return Fix(
            kind="buy",
            text="no limit that these cards take fits: buy a larger power supply, or spread the "
            "cards over more supplies and circuits and declare that in psus and circuits",
        )
    values = set(limits.values())
    declared: object = values.pop() if len(values) == 1 else limits
    commands = "; ".join(f"`nvidia-smi -i {card} -pl {watts}`" for card, watts in limits.items())
    return Fix(
        kind="apply",
        concern="gpu_tuning",
        declare={_KEY: declared},
        text="`rigops apply` lowers the cards' limits so that everything fits; or use a larger "
        "supply, or spread the cards over more of them",
        by_hand=f"lower the limits ({commands}), at every boot; or use a larger supply",
    )


@Check("pwr.psu_split")
def split(examined: Examined) -> Finding:
    """Every card is on a declared supply.

    Compares the PCI addresses in `psus` with the cards on the bus. Cards that no supply names, and
    addresses at which there is no card, make the power budget wrong; both are information. Without
    addresses in psus: skipped.
    """
    psus = examined.spec.psus
    if psus is None or not any(psu.gpus or psu.host for psu in psus):
        return _split("skipped", "which card hangs on which supply is not declared")
    reckoned = find_power(examined).budget()
    missing = reckoned.strangers
    if missing and views.sees_the_bus(examined):
        named = ", ".join(missing)
        return _split("info", f"psus names {named}, and no card is there")
    if reckoned.unfed:
        named = ", ".join(reckoned.unfed)
        return _split("info", f"psus does not say what feeds {named}")
    if missing or not views.sees_the_bus(examined):
        return _split("unknown", "which cards there are is not known")
    cards = "; ".join(
        f"{one.name}: {len(one.loads)} cards" + (" and the board" if one.host_watts else "")
        for one in reckoned.supplies
    )
    return _split("ok", cards)


def _split(status: Status, summary: str) -> Finding:
    return Finding(
        status,
        summary,
        why="The budget of each supply is only as good as what is declared of it. Two cards on "
        "one cable, or a riser on another supply than its card, are not seen from here.",
    )
