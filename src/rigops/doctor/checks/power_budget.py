"""Whether the declared power supplies and circuits carry what the cards' limits add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops import power
from rigops.doctor import views
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import kernel_logs, reported
from rigops.doctor.views.incidents import OFF_THE_BUS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.finding import Status
    from rigops.power import Budget


_KEY = "gpu_power_limit"
_SHOWN: Final = 5
_WHAT = {
    "steady": "under lasting load",
    "peak": "in peaks of milliseconds",
    "circuit": "from the wall",
}
_SHARES = {
    "steady": f"{power.STEADY_SHARE:.0%} of its watts",
    "peak": "all its watts",
    "circuit": f"{power.CIRCUIT_SHARE:.0%} of the breaker",
}


@Check(
    "pwr.budget",
    needs=(KERNEL_LOG_PREVIOUS, KERNEL_LOG, SMI),
    fixes=("apply", "buy"),
    keys=frozenset({"psus", "circuits"}),
)
def limits(examined: Examined) -> Finding:
    """Power supplies and circuits carry what the limits add up to.

    Adds up the power limits in force, of the cards that each declared supply feeds, and
    `other_watts` for all else, the CPU included (without it: 150 W for the CPU and 100 W for the
    rest). Healthy is up to 90 % of a supply for hours, all its watts in peaks (limit times the
    catalog's spike factor, which comes from a 350 W RTX 3090 that drew 600 W), and 80 % of a
    circuit's volts times amperes, which is the code's rule for loads that last; supplies waste 10
    %. More is a warning, and a failure where a card has fallen off the bus (Xid 79) in this boot or
    the one before. Without psus and circuits: skipped.
    """
    spec = examined.spec
    if spec.psus is None and spec.circuits is None:
        return Finding("skipped", "neither psus nor circuits are declared")
    reckoned = _reckoned(examined)
    if reckoned.excesses:
        return _over(examined, reckoned)
    if doubt := _doubt(examined, reckoned):
        return doubt
    return Finding("ok", f"{_sum(reckoned)}; {_assumed(examined)}")


def _doubt(examined: Examined, reckoned: Budget) -> Finding | None:
    if missing := reported.gap(examined):
        return missing
    if reckoned.unknown:
        return Finding("unknown", f"the limit of {', '.join(reckoned.unknown)} is not known")
    if reckoned.unwired:
        supplies = ", ".join(reckoned.unwired)
        return Finding("unknown", f"on which circuit {supplies} hangs is not declared")
    return None


def _reckoned(examined: Examined) -> Budget:
    spec = examined.spec
    return power.reckon(
        _loads(examined),
        host=power.host_watts(spec.other_watts),
        psus=spec.psus,
        circuits=spec.circuits,
    )


def _loads(examined: Examined) -> list[power.Load]:
    return [
        power.Load(
            address=card.address,
            watts=card.smi.watts_limit if card.smi else None,
            least_watts=card.smi.watts_min if card.smi else None,
            spike_factor=card.model.spike_factor if card.model else power.SPIKE_FACTOR,
        )
        for card in examined.cards
    ]


def _over(examined: Examined, reckoned: Budget) -> Finding:
    drops = _drops(examined)
    summary = "; ".join(
        f"{one.where}: {one.watts:.0f} W {_WHAT[one.kind]}, above the safe {one.allowed:.0f} W "
        f"({_SHARES[one.kind]})"
        for one in reckoned.excesses
    )
    return Finding(
        "fail" if drops else "warn",
        summary + (", and a card has fallen off the bus (Xid 79)" if drops else ""),
        drops,
        why="An overloaded supply drops its voltage or switches off: cards fall off the bus or the "
        f"rig reboots under load. Reckoned with {_assumed(examined)}.",
        fix=_fix(examined, reckoned),
        data={
            "excesses": [
                {
                    "kind": one.kind,
                    "where": one.where,
                    "watts": round(one.watts),
                    "allowed": round(one.allowed),
                }
                for one in reckoned.excesses
            ]
        },
    )


def _drops(examined: Examined) -> tuple[Evidence, ...]:
    found = [
        Evidence(kernel_logs.section_of(which, xid.entry), xid.entry.line)
        for which, xid in kernel_logs.of_both_boots(examined.snapshot, lambda log: log.xids)
        if xid.number == OFF_THE_BUS or xid.bus_drop
    ]
    return tuple(found[:_SHOWN])


def _sum(reckoned: Budget) -> str:
    supplies = [f"{one.name} {one.steady:.0f} of {one.watts:.0f} W" for one in reckoned.supplies]
    walls = [
        " ".join(f"circuit {one.name} {one.watts:.0f} of {one.allowed:.0f} W".split())
        for one in reckoned.walls
    ]
    return ", ".join([*supplies, *walls])


def _assumed(examined: Examined) -> str:
    declared = examined.spec.other_watts
    host = power.host_watts(declared)
    source = "declared" if declared is not None else "an estimate; declare other_watts"
    return f"{host:.0f} W for all but the cards ({source})"


def _fix(examined: Examined, reckoned: Budget) -> Fix:
    fitting = power.fitting(reckoned, _loads(examined))
    if fitting is None:
        return Fix(
            kind="buy",
            text="no limit that these cards take fits: buy a larger power supply, or spread the "
            "cards over more supplies and circuits and declare that in psus and circuits",
        )
    values = set(fitting.values())
    declared: object = values.pop() if len(values) == 1 else fitting
    commands = "; ".join(f"`nvidia-smi -i {card} -pl {watts}`" for card, watts in fitting.items())
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
    """Every card hangs on a declared supply.

    Compares the PCI addresses in `psus` with the cards on the bus. Cards that no supply names, and
    addresses at which there is no card, make the power budget wrong; both are information. Without
    addresses in psus: skipped.
    """
    psus = examined.spec.psus
    if psus is None or not any(psu.gpus or psu.host for psu in psus):
        return _split("skipped", "which card hangs on which supply is not declared")
    reckoned = _reckoned(examined)
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
