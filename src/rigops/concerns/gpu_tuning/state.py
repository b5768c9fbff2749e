"""Whether the cards have what is declared. Pure; Python 3.8 and the standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.concerns.state import AS_DECLARED, DIFFERS, HELD, LEFT_OVER, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigops.concerns.state import Status

# Watts, which nvidia-smi rounds; MHz: a step of the clock, and more than that. The program that
# sets the cards gets them too.
TOLERANCES: Final = "power=1,graphics=15,memory=50"
WORDS: Final = {
    "persistence": "persistence",
    "power": "power limit",
    "graphics": "graphics clocks",
    "memory": "memory clocks",
    "application": "application clocks",
}
CHECKS: Final = {  # of doctor and the self-check
    "persistence": "drv.persist",
    "power": "pwr.limit",
    "graphics": "clk.app",
    "memory": "clk.app",
    "application": "clk.app",
}
_TOLERANCE: Final = {
    name: float(value) for name, _, value in (one.partition("=") for one in TOLERANCES.split(","))
}
TOLERANCE_WATTS: Final = _TOLERANCE["power"]
_LOCKS: Final = frozenset({"graphics", "memory"})
_NOT_REPORTED: Final = "the card does not report it"


class Wanted(NamedTuple):
    """A line of the table. `card`: its UUID, or its address where it reports none."""

    card: str
    address: str
    setting: str
    value: str

    @property
    def line(self) -> str:
        return f"{self.card} {self.setting} {self.value}"


class Shown(NamedTuple):
    """A card's value of a setting; empty where it reports none.

    `most`: the limit in force, or the clock of the moment. `trouble`: why it cannot be read.
    """

    now: str = ""
    most: str = ""
    trouble: str = ""


class WasSet(NamedTuple):
    """A value set since the boot. `was`: before; empty where the card does not report it."""

    card: str
    address: str
    setting: str
    value: str
    was: str


class Lowered(NamedTuple):
    """The limit to which the thermal guard has lowered a card."""

    watts: float
    why: str


def judge_cards(
    shown: Sequence[tuple[Wanted, Shown]],
    was_set: Sequence[WasSet] | None,
    lowered: Mapping[str, Lowered],
) -> list[State]:
    """`was_set`: None where the record is not known. `lowered`: by UUID or address.

    A card is found by its address too: a redacted report has other UUIDs. One that cannot be read
    is said once.
    """
    recorded = {
        (card, old.setting): old.value for old in was_set or () for card in (old.card, old.address)
    }
    states, named, unread = [], set(), set()
    for one, values in shown:
        places = [(card, one.setting) for card in (one.card, one.address)]
        named.update(places)
        if one.card in unread:
            continue
        if values.trouble:
            unread.add(one.card)
        known = next((recorded[place] for place in places if place in recorded), "")
        held = lowered.get(one.card) or lowered.get(one.address)
        states.append(_judge(one, values, None if was_set is None else known, held))
    return states + [
        state_of(old, old.value, LEFT_OVER)
        for old in was_set or ()
        if named.isdisjoint({(old.card, old.setting), (old.address, old.setting)})
    ]


def state_of(of: Wanted | WasSet, now: str, status: Status, why: str = "") -> State:
    wanted = of.was if isinstance(of, WasSet) else of.value
    return State(
        CHECKS[of.setting],
        f"gpu {of.address or of.card}",
        WORDS[of.setting],
        with_unit(of.setting, wanted),
        with_unit(of.setting, now),
        status,
        why,
    )


def _judge(wanted: Wanted, shown: Shown, recorded: str | None, held: Lowered | None) -> State:
    """`recorded`: empty where nothing was set in this boot, None where that is not known."""
    if shown.trouble:
        return state_of(wanted, shown.now, UNKNOWN, shown.trouble)
    if wanted.setting == "power":
        return _limit(wanted, shown, held)
    if wanted.setting in _LOCKS:
        return _lock(wanted, shown, recorded)
    if shown.now:
        status: Status = AS_DECLARED if shown.now == wanted.value else DIFFERS
        return state_of(wanted, shown.now, status)
    if wanted.setting == "application":  # which new drivers do not report
        return _by_record(wanted, recorded)
    return state_of(wanted, "", UNKNOWN, _NOT_REPORTED)


def _limit(wanted: Wanted, shown: Shown, held: Lowered | None) -> State:
    if not shown.now and not shown.most:
        return state_of(wanted, "", UNKNOWN, _NOT_REPORTED)
    watts, requested = float(wanted.value), float(shown.now or shown.most)
    in_force = float(shown.most or requested)
    if abs(requested - watts) > TOLERANCE_WATTS:
        if held is None or abs(requested - held.watts) > TOLERANCE_WATTS:
            return state_of(wanted, f"{requested:g}", DIFFERS)
        why = f"the thermal guard has lowered it to {held.watts:g} W: {held.why}"
        return state_of(wanted, f"{requested:g}", HELD, why)
    if abs(in_force - watts) <= TOLERANCE_WATTS:
        return state_of(wanted, f"{requested:g}", AS_DECLARED)
    if in_force > watts:
        return state_of(wanted, f"{in_force:g}", DIFFERS)
    why = f"the card itself keeps {in_force:g} W in force, below the {watts:g} W that are requested"
    return state_of(wanted, f"{in_force:g}", HELD, why)


def _lock(wanted: Wanted, shown: Shown, recorded: str | None) -> State:
    """The driver reports no lock, only the clock of the moment, which may be low at idle."""
    mhz = float(shown.most) if shown.most else None
    highest = int(wanted.value.partition(",")[2])
    if mhz is not None and mhz > highest + _TOLERANCE[wanted.setting]:
        return state_of(wanted, f"{mhz:g}", DIFFERS)
    state = _by_record(wanted, recorded)
    if state.status == AS_DECLARED and mhz is None:
        return state._replace(status=UNKNOWN, why="the card does not report its clock")
    return state


def _by_record(wanted: Wanted, recorded: str | None) -> State:
    if recorded is None:
        why = "the driver does not report it, and the value that rigops set is not known"
        return state_of(wanted, "", UNKNOWN, why)
    if recorded != wanted.value:
        return state_of(wanted, recorded, DIFFERS)
    why = "set in this boot; the driver does not report it"
    return state_of(wanted, recorded, AS_DECLARED, why)


def with_unit(setting: str, value: str) -> str:
    if setting == "persistence":
        return {"1": "on", "0": "off"}.get(value, "unknown")
    if "." in value:  # nvidia-smi writes 300.00
        value = value.rstrip("0").rstrip(".")
    unit = "W" if setting == "power" else "MHz"
    return f"{value} {unit}" if value else "as the driver chooses"
