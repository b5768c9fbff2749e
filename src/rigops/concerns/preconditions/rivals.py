"""Other programs that set the cards, and would undo what is declared for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rigops.probe.sections.units import CardSetter, Units

# The probe asks for these units by name.
DAEMONS: Final[Mapping[str, str]] = {
    "lactd.service": "sets the default power limit of each card in its configuration that has no "
    "power_cap, also after a resume",
    "nvidia-powerd.service": "moves power limits between processor and card",
    "nvidia-pstated.service": "switches the cards between performance states",
    "nvidia_oc.service": "sets clocks and power limits",
    "nvidia-oc.service": "sets clocks and power limits",
    "tuxclockerd.service": "sets clocks and power limits",
    "coolercontrold.service": "can set power limits and fans",
}
# By their short names: desktop programs (gwe is GreenWithEnvy), and daemons started by hand.
_PROGRAMS: Final[Mapping[str, str]] = {
    "gwe": "sets power limits and clocks",
    "tuxclocker": "sets clocks and power limits",
    **{name.removesuffix(".service"): does for name, does in DAEMONS.items()},
}


def running(units: Units) -> Iterator[tuple[str, str]]:
    """Each unit, and each program without one, with what it does to the cards."""
    named = set()
    for name, does in DAEMONS.items():
        unit = units.unit(name)
        if unit is not None and unit.active in {"active", "activating"}:
            named.add(name.removesuffix(".service"))
            yield name, does
    for program in units.programs:
        if program in _PROGRAMS and program not in named:
            yield program, _PROGRAMS[program]


def may_run(units: Units, setter: CardSetter) -> bool:
    """A unit that is off, and that no timer starts, sets nothing."""
    unit = units.unit(setter.unit) if setter.unit else None
    if unit is None or unit.enabled not in {"disabled", "masked"} or unit.active != "inactive":
        return True
    timer = units.unit(unit.name.removesuffix(".service") + ".timer")
    return timer is None or timer.exists


def notices(units: Units) -> Iterator[str]:
    """Programs that a person should turn off before the settings of the cards can hold."""
    for name, does in running(units):
        off = f"sudo systemctl disable --now --no-reload {name}" if name in DAEMONS else "end it"
        yield f"{name} runs and {does}: {off}, or it undoes this"
    for setter in units.setters or ():
        if setter.sets & {"power", "clocks"} and may_run(units, setter):
            yield (
                f"{setter.file} sets the cards too ({setter.command[:80].strip()}), and the last "
                "writer wins: remove that line"
            )
