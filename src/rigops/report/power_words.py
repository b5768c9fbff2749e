"""Words of reports of power on cards, supplies and circuits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.power import CIRCUIT_SHARE, STEADY_SHARE, Load, Share, Supply, Wall
from rigops.report.words import grouped

if TYPE_CHECKING:
    from rigops.power.report import Status

WORDS: Final[dict[Status, str]] = {
    "fail": "OVER BUDGET",
    "unknown": "UNKNOWN",
    "warn": "OVER UNTIL APPLIED",
    "ok": "FITS",
    "skipped": "NO BUDGET",
}
COLORS: Final[dict[Status, str]] = {
    "fail": "red",
    "unknown": "yellow",
    "warn": "yellow",
    "ok": "green",
    "skipped": "white",
}
OVER: Final = "OVER"
_CELLS: Final = 20  # of a bar
_NARROW: Final = 70  # columns, below which a bar has half as many


def bar_cells(width: int) -> int:
    return _CELLS if width >= _NARROW else _CELLS // 2


def cards(loads: Sequence[Load]) -> str:
    """Each kind with its limit once."""
    kinds = grouped(loads, lambda one: (one.name, one.watts, one.source, one.watts_now))
    return ", ".join(
        f"{len(same)}x {name} {limited(same[0])}" for (name, *_), same in kinds.items()
    )


def limited(load: Load) -> str:
    if load.watts is None:
        return "with an unknown limit"
    now = f", {load.watts_now:g} W now" if load.is_pending else ""
    return f"at {load.watts:g} W ({load.source}{now})"


def bar(full: float, steady: float, peak: float, cells: int) -> str:
    """Of what is there in all; `>` at its end where it is more than that."""
    filled = min(cells, round(steady / full * cells)) if full else cells
    peaks = min(cells, round(peak / full * cells)) - filled if full else 0
    end = ">" if peak > full or steady > full else "]"
    return f"[{'█' * filled}{'▒' * peaks}{'░' * (cells - filled - peaks)}{end}"


def of_supply(supply: Supply) -> str:
    steady = _used(supply.steady, supply.watts * STEADY_SHARE)
    return f"{steady}, peaks {_used(supply.peak, supply.watts)}"


def fed(supply: Supply) -> str:
    fed = [short(load.address) for load in supply.loads]
    if supply.host_watts:
        fed.append(f"all else ({supply.host_watts:.0f} W)")
    return f"feeds {', '.join(fed) or 'nothing that is declared'}"


def of_wall(wall: Wall) -> str:
    hosts = ", ".join(one.host for one in wall.others)
    return f"{_used(wall.watts, wall.allowed)} {rule(wall)}" + (f", with {hosts}" if hosts else "")


def rule(wall: Wall) -> str:
    circuit = wall.circuit
    return f"({circuit.volts:g} V x {circuit.amperes:g} A x {CIRCUIT_SHARE:.0%})".replace("%", " %")


def _used(watts: float, allowed: float) -> str:
    over = f"{OVER} " if round(watts, 3) > round(allowed, 3) else ""
    return f"{over}{watts:.0f} of {allowed:.0f} W"


def share_text(share: Share) -> str:
    return f"{share.host} {share.watts:.0f} W" if share.is_known else f"{share.host} unknown"


def short(address: str) -> str:
    return address.removeprefix("0000:")
