"""Who else sets what rigops is to set: services that tune, and units and scripts of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rigops.concerns.preconditions.words import listed, said

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rigops.probe.sections.units import CardSetter, Unit, Units

Setting = Literal["power", "clocks", "persistence", "governor"]

_OURS: Final = "rigops-"
_WORDS: Final[dict[Setting, str]] = {
    "power": "the power limit of cards",
    "clocks": "the clocks of cards",
    "persistence": "the persistence mode of cards",
    "governor": "the CPU's governor",
}
_GOVERNORS: Final = (
    "tuned.service", "power-profiles-daemon.service", "tlp.service", "auto-cpufreq.service",
    "cpupower.service",
)  # fmt: skip
_COOLS: Final = "thermald.service"
# What lies there runs only when something else calls it.
_FOR_OTHERS: Final = ("/usr/local/bin/", "/usr/local/sbin/")


@dataclass(frozen=True)
class Rivalry:
    """`blocking`: who undoes at the next start what is set now. `notices`: who only may."""

    blocking: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def rivalry(units: Units, sets: Collection[Setting]) -> Rivalry:
    blocking: list[str] = []
    notices: list[str] = []
    if "governor" in sets:
        blocking += map(_service, _running(units, _GOVERNORS))
        notices += (
            f"{unit.name} slows the CPU down on its own when it gets warm"
            for unit in _running(units, [_COOLS])
        )
    for one in units.setters or ():
        contested = [
            _WORDS[setting] for setting in _WORDS if setting in sets and setting in one.sets
        ]
        if contested and _OURS not in one.file and may_run(units, one):
            calls = f"{said(one.file)} sets {listed(contested)} too ({said(one.command)})"
            if one.file.startswith(_FOR_OTHERS):
                notices.append(f"{calls}, whenever something runs it")
            else:
                blocking.append(f"{calls}: {_way_out(one)}")
    return Rivalry(tuple(dict.fromkeys(blocking)), tuple(dict.fromkeys(notices)))


def may_run(units: Units, setter: CardSetter) -> bool:
    """A unit that is off, and that no timer starts, sets nothing."""
    unit = units.unit(setter.unit) if setter.unit else None
    if unit is None or unit.enabled not in {"disabled", "masked"} or unit.active != "inactive":
        return True
    timer = units.unit(unit.name.removesuffix(".service") + ".timer")
    return timer is None or timer.exists


def _running(units: Units, names: Collection[str]) -> Iterator[Unit]:
    """What is at work now, or will be after the next boot."""
    for name in names:
        unit = units.unit(name)
        if (
            unit is not None
            and unit.exists
            and unit.load != "masked"
            and (unit.active in {"active", "activating", "reloading"} or unit.enabled == "enabled")
        ):
            yield unit


def _service(unit: Unit) -> str:
    return (
        f"{unit.name} sets {_WORDS['governor']} whenever it starts: "
        f"`systemctl disable --now {unit.name}`, or leave it to that service and declare nothing"
    )


def _way_out(setter: CardSetter) -> str:
    if setter.unit:
        return f"`systemctl disable --now {said(setter.unit)}`, or declare nothing here"
    return "delete that line, or declare nothing here"
