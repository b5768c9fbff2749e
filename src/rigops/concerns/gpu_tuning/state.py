"""Whether the cards have what is declared. Pure; Python 3.8 and the standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.concerns.state import AS_DECLARED, DIFFERS, HELD, LEFT_OVER, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOLERANCE_WATTS: Final = 1.0  # nvidia-smi rounds
TOLERANCE_MHZ: Final = {"graphics": 15, "memory": 50}  # a step of the clock, and more than that
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
    """What a card reports of a setting; empty where it does not.

    `most`: the limit in force, or the clock of the moment. `trouble`: why it cannot be read.
    """

    now: str = ""
    most: str = ""
    trouble: str = ""


class WasSet(NamedTuple):
    """What was set since the boot. `was`: before; empty where the card does not report it."""

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
        State(old.setting, old.address or old.card, old.was, old.value, LEFT_OVER)
        for old in was_set or ()
        if named.isdisjoint({(old.card, old.setting), (old.address, old.setting)})
    ]


def _judge(wanted: Wanted, shown: Shown, recorded: str | None, held: Lowered | None) -> State:
    """`recorded`: empty where nothing was set in this boot, None where that is not known."""
    subject = wanted.address or wanted.card
    plain = State(wanted.setting, subject, wanted.value, shown.now, AS_DECLARED)
    if shown.trouble:
        return plain._replace(status=UNKNOWN, why=shown.trouble)
    if wanted.setting == "power":
        return _limit(plain, shown, held)
    if wanted.setting in TOLERANCE_MHZ:
        return _lock(plain, shown, recorded)
    if shown.now:
        return plain if shown.now == wanted.value else plain._replace(status=DIFFERS)
    if wanted.setting == "application":  # which new drivers do not report
        return _by_record(plain, recorded)
    return plain._replace(status=UNKNOWN, why=_NOT_REPORTED)


def _limit(plain: State, shown: Shown, held: Lowered | None) -> State:
    if not shown.now and not shown.most:
        return plain._replace(status=UNKNOWN, why=_NOT_REPORTED)
    watts, requested = float(plain.wanted), float(shown.now or shown.most)
    in_force = float(shown.most or requested)
    one = plain._replace(now=f"{requested:g}")
    if abs(requested - watts) > TOLERANCE_WATTS:
        if held is None or abs(requested - held.watts) > TOLERANCE_WATTS:
            return one._replace(status=DIFFERS)
        why = f"the thermal guard has lowered it to {held.watts:g} W: {held.why}"
        return one._replace(status=HELD, why=why)
    if abs(in_force - watts) <= TOLERANCE_WATTS:
        return one
    one = one._replace(now=f"{in_force:g}")
    if in_force > watts:
        return one._replace(status=DIFFERS)
    why = f"the card itself keeps {in_force:g} W in force, below the {watts:g} W that are requested"
    return one._replace(status=HELD, why=why)


def _lock(plain: State, shown: Shown, recorded: str | None) -> State:
    """The driver reports no lock, only the clock of the moment, which may be low at idle."""
    mhz = float(shown.most) if shown.most else None
    highest = int(plain.wanted.partition(",")[2])
    if mhz is not None and mhz > highest + TOLERANCE_MHZ[plain.key]:
        return plain._replace(status=DIFFERS, now=f"{mhz:g}")
    state = _by_record(plain, recorded)
    if state.status == AS_DECLARED and mhz is None:
        return plain._replace(status=UNKNOWN, why="the card does not report its clock")
    return state


def _by_record(plain: State, recorded: str | None) -> State:
    if recorded is None:
        why = "the driver does not report it, and what rigops has set is not known"
        return plain._replace(status=UNKNOWN, why=why)
    if recorded != plain.wanted:
        return plain._replace(status=DIFFERS, now=recorded)
    return plain._replace(now=recorded, why="set in this boot; the driver does not report it")


def with_unit(setting: str, value: str) -> str:
    if setting == "persistence":
        return {"1": "on", "0": "off"}.get(value, "unknown")
    unit = "W" if setting == "power" else "MHz"
    return f"{value} {unit}" if value else "as the driver chooses"


def describe(state: State) -> str:
    name = WORDS[state.key]
    verb = "are" if name.endswith("s") else "is"
    now, wanted = (with_unit(state.key, value) for value in (state.now, state.wanted))
    if state.status == DIFFERS:
        return f"{name} {verb} {now}, declared {wanted}"
    if state.status == LEFT_OVER:
        return f"{name} {verb} {now} by rigops, and no longer declared"
    if state.status == AS_DECLARED:
        return f"{name} {verb} {wanted}, as declared"
    return f"{name}: {state.why}"
