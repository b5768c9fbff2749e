"""The guard's steps: readings and the time go in, actions come out. No I/O.

A card climbs one rung after each hold during which it was too hot, or its sensor was lost, without
a break: notify, five of lower power, stop jobs, power off. It goes down one rung after each hold
during which it was clearly cool. In between it stays where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.thermal_guard.guard.readings import (
    LOWER_POWER,
    NONE,
    NOTIFY,
    POWEROFF,
    STEPS,
    STOP_JOBS,
    GuardSettings,
    Reading,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.concerns.thermal_guard.guard.baselines import Baselines

CLEAR_CELSIUS = 3.0  # so far below its limit a card is clearly cool
LOWERINGS = 5  # from the limit before down to the card's least
_FIRST_LOWERING = 2
_STOP_RUNG = _FIRST_LOWERING + LOWERINGS
_LAST_RUNG = _STOP_RUNG + 1
_ROUNDING_WATTS = 1.0
_QUIET_HOLDS = 60  # before a step that comes and goes is reported once more


class SetLimit(NamedTuple):
    uuid: str
    watts: float


class Say(NamedTuple):
    """`tells`: a step began or ended, so it is reported; else only the journal has it."""

    address: str
    step: int
    text: str
    tells: bool = True


class PowerOff(NamedTuple):
    why: str


class Request(NamedTuple):
    step: int = NONE
    why: str = ""


class Held(NamedTuple):
    """A card as an earlier run of the guard left it. None: its power is not lowered."""

    uuid: str
    address: str
    rung: int = 0
    why: str = ""
    watts: float | None = None
    before: float | None = None


class _Order(NamedTuple):
    """A limit that the card has not reported yet. `at_first`: what it had when that was ordered."""

    at_first: float | None
    watts: float


class _State(NamedTuple):
    kind: str  # hot, lost, clear or between
    cap: int = NONE
    why: str = ""


def step_of(rung: int) -> int:
    if rung >= _STOP_RUNG:
        return STOP_JOBS if rung == _STOP_RUNG else POWEROFF
    return min(rung, LOWER_POWER)


class CardGuard:
    """One card. `before`: the limit that another program set, while the guard has lowered it."""

    def __init__(self, settings: GuardSettings, uuid: str, address: str) -> None:
        self.uuid = uuid
        self.address = address
        self.rung = 0
        self.why = ""
        self.before: float | None = None
        self.watts: float | None = None  # that the guard has set
        self.warning = ""  # warmer than its own baseline
        self._settings = settings
        self._request = Request()
        self._last: Reading | None = None
        self._had_memory = False
        self._hot_since: float | None = None
        self._lost_since: float | None = None
        self._clear_since: float | None = None
        self._changed = float("-inf")
        self._ordered = float("-inf")  # when a limit was last ordered
        self._refused = ""
        self._reported: dict[int, float] = {}  # when, by step
        self._pending: _Order | None = None
        self._cap = POWEROFF  # what the last trouble may lead to

    @property
    def step(self) -> int:
        own = max(step_of(self.rung), NOTIFY if self.warning else NONE)
        return max(own, self._request.step)

    @property
    def reason(self) -> str:
        if self._request.step > step_of(self.rung):
            return self._request.why
        return self.why if self.rung else self.warning

    @property
    def stops_jobs(self) -> bool:
        """Never for a reason that may not, such as memory, once the graver one is gone."""
        own = min(step_of(self.rung), self._cap)
        return max(own, self._request.step) >= STOP_JOBS

    def restore(self, held: Held) -> None:
        if held.watts is not None and held.before is not None:
            self.watts, self.before = held.watts, held.before
        self.rung, self.why = max(0, min(held.rung, _STOP_RUNG)), held.why

    def refuse(self, reason: str) -> Iterator[Say]:
        """The card did not take a limit: a lower one is not tried again until the next rung."""
        pending, self._pending = self._pending, None
        if pending and pending.at_first is not None:
            if self.before is None:
                self.before, self.watts = pending.watts, pending.at_first
            elif _is_near(pending.at_first, self.before):
                self.before = self.watts = None
            else:
                self.watts = pending.at_first
        if not self._refused:
            self._refused = reason
            yield self._say(f"its power limit cannot be set: {reason}", tells=False)

    def see(
        self,
        now: float,
        asked: float,
        reading: Reading | None,
        trouble: str,
        *,
        waits: bool,
        sets: bool,
    ) -> Iterator[SetLimit | Say | PowerOff]:
        """`asked`: when the reading was asked for. `trouble`: why there is none.

        `waits`: a lost sensor leads to no step for now. `sets`: a limit can be set.
        """
        if reading:
            self._last = _completed(reading, self._last)
            self._had_memory = self._had_memory or reading.memory is not None
            yield from self._hold_limit(now, asked, reading)
        state = self._judge(reading, trouble)
        if reading and asked > self._ordered and self._is_to_set(state.kind):
            yield from self._set_limit(now)
        self._cap = state.cap or self._cap
        self._time(now, state.kind, waits=waits)
        since = {"hot": self._hot_since, "lost": self._lost_since}.get(state.kind)
        if self._is_due(now, since):
            yield from self._climb(now, state, sets=sets)
        elif self.rung and self._is_due(now, self._clear_since):
            yield from self._descend(now)

    def order(self, now: float, request: Request) -> Iterator[SetLimit | Say]:
        """A step requested by a person or a program, at once; NONE ends it."""
        self._request = request
        self._refused = ""
        yield from self._set_limit(now)

    # ---- what a reading is

    def _judge(self, reading: Reading | None, trouble: str) -> _State:
        if reading is None:
            return _State("lost", self._settings.loss, trouble)
        limits = self._settings
        core, memory = list(self._core_heat(reading)), list(self._memory_heat(reading))
        if core:
            return _State("hot", limits.action, " and ".join(core + memory))
        lost = _lost_sensor(limits, reading)
        if lost:
            return _State("lost", limits.loss, lost)
        if memory:
            return _State("hot", min(limits.action, LOWER_POWER), memory[0])
        if limits.memory is not None and self._had_memory and reading.memory is None:
            text = "the temperature of its memory is no longer reported"
            return _State("lost", min(limits.loss, NOTIFY), text)
        return _State("clear" if _is_clear(limits, reading) else "between")

    def _core_heat(self, reading: Reading) -> Iterator[str]:
        limit, margin = self._settings.gpu, self._settings.margin
        if limit is not None and reading.celsius is not None and reading.celsius > limit:
            yield f"it is at {reading.celsius:g} °C, above {limit:g} °C"
        if margin is not None and reading.margin is not None and reading.margin < margin:
            yield f"{reading.margin:g} °C are left to its T.Limit, fewer than {margin:g}"

    def _memory_heat(self, reading: Reading) -> Iterator[str]:
        limit = self._settings.memory
        if limit is not None and reading.memory is not None and reading.memory > limit:
            yield f"its memory is at {reading.memory:g} °C by nvidia-smi, above {limit:g} °C"

    def _time(self, now: float, kind: str, *, waits: bool) -> None:
        if kind != "clear":
            self._clear_since = None
        elif self._clear_since is None:
            self._clear_since = now
        if kind != "lost" or waits:
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = now
        # A reading that is missing does not say that the card has cooled.
        if kind == "hot":
            self._hot_since = now if self._hot_since is None else self._hot_since
        elif kind != "lost":
            self._hot_since = None

    def _is_due(self, now: float, since: float | None) -> bool:
        return since is not None and now - max(since, self._changed) >= self._settings.hold_s

    # ---- up and down

    def _climb(
        self, now: float, state: _State, *, sets: bool
    ) -> Iterator[SetLimit | Say | PowerOff]:
        rung = self.rung + 1
        if _FIRST_LOWERING <= rung < _STOP_RUNG:
            if self._last and not self._can_lower():
                rung = _STOP_RUNG
            elif not sets:
                rung = _STOP_RUNG - 1
        rung = min(rung, _LAST_RUNG)  # the host is still on
        if step_of(rung) > state.cap:
            self.why = state.why
            return
        is_new_step = step_of(rung) > step_of(self.rung)
        self.rung, self.why, self._changed, self._refused = rung, state.why, now, ""
        old, order = self._limit, list(self._set_limit(now)) if sets else []
        change = f", power limit {old} -> {order[0].watts:g} W" if order else ""
        if step_of(rung) == LOWER_POWER and not sets:
            change = ", which takes an nvidia-smi that answers"
        text = f"{state.why}: step {STEPS[step_of(rung)]}{change}"
        yield self._say(text, tells=is_new_step and self._is_news(now, step_of(rung)))
        yield from order
        if rung == _LAST_RUNG:
            yield PowerOff(f"GPU {self.address}: {state.why}")

    def _descend(self, now: float) -> Iterator[SetLimit | Say]:
        if self.before is None or self.rung <= _FIRST_LOWERING:
            self.rung = 0
        else:
            self.rung = min(self.rung, _STOP_RUNG) - 1
        self._changed = now
        old, order = self._limit, list(self._set_limit(now))
        change = f": power limit {old} -> {order[0].watts:g} W" if order else ""
        reading = self._last
        celsius = reading.celsius if reading else None
        cool = f"it is at {celsius:g} °C" if celsius is not None else "it is cool again"
        end = "" if self.rung else "; back to normal"
        yield self._say(f"{cool}{change}{end}", tells=not self.rung and self._is_news(now, NONE))
        yield from order

    def _is_news(self, now: float, step: int) -> bool:
        last = self._reported.get(step)
        quiet_s = _QUIET_HOLDS * self._settings.hold_s if step < STOP_JOBS else 0.0
        if last is not None and now - last < quiet_s:
            return False
        self._reported[step] = now
        return True

    def _can_lower(self) -> bool:
        top = self.before if self.before is not None else self._last and self._last.limit
        least = self._last.least if self._last else None
        return top is not None and least is not None and top > least + _ROUNDING_WATTS

    # ---- the power limit

    def _is_to_set(self, kind: str) -> bool:
        """Limits that could not be set in time, or lost their reason while the guard was down."""
        if self.before is not None and self._wanted() is None:
            return True
        is_bad = self.rung >= _FIRST_LOWERING and kind in {"hot", "lost"}
        is_wanted = is_bad or self._request.step >= LOWER_POWER
        return is_wanted and self.watts is None and not self._refused

    @property
    def _limit(self) -> str:
        live = self.watts if self.watts is not None else self._last and self._last.limit
        return f"{live:g} W" if live is not None else "unknown"

    def _wanted(self) -> float | None:
        """The limit that the guard wants; None: that of another program."""
        lowerings = max(0, min(self.rung - _FIRST_LOWERING + 1, LOWERINGS))
        if self._request.step >= LOWER_POWER:
            lowerings = LOWERINGS
        reading = self._last
        if not lowerings or not self._can_lower() or reading is None:
            return None
        top = self.before if self.before is not None else reading.limit
        if top is None or reading.least is None:
            return None
        return max(reading.least, float(int(top - (top - reading.least) * lowerings / LOWERINGS)))

    def _set_limit(self, now: float) -> Iterator[SetLimit]:
        if self._last is None:
            return  # its range is not known yet
        wanted = self._wanted()
        if wanted is None:
            if self.before is not None:
                yield self._ordering(now, self.before)
                self._last = self._last._replace(limit=self.before)
            self.before = self.watts = None
        elif wanted != self.watts:
            if self.before is None:
                self.before = self._last.limit
            self.watts = wanted
            yield self._ordering(now, wanted)

    def _ordering(self, now: float, watts: float) -> SetLimit:
        self._pending = _Order(self._last.limit if self._last else None, watts)
        self._ordered = now
        return SetLimit(self.uuid, watts)

    def _hold_limit(self, now: float, asked: float, reading: Reading) -> Iterator[SetLimit | Say]:
        """Another program may set it at any time; that is then the limit from before."""
        live, own, pending = reading.limit, self.watts, self._pending
        if live is None or asked <= self._ordered:
            return
        if pending and _is_near(live, pending.at_first) and not _is_near(live, pending.watts):
            is_return = own is None or own > live
            if now - self._ordered >= self._settings.hold_s and (is_return or not self._refused):
                self._ordered = now
                yield SetLimit(self.uuid, pending.watts)
            return
        self._pending = None
        if own is None:
            return
        if live > own + _ROUNDING_WATTS:
            self.before, self.watts = live, None
            yield from self._set_limit(now)
            yield self._say(f"its power limit was set to {live:g} W: lowered again", tells=False)
        elif live < own - _ROUNDING_WATTS:
            self.before = self.watts = None
            self.rung = min(self.rung, NOTIFY)
            yield self._say(f"another program set its power limit to {live:g} W", tells=False)
            yield from self._set_limit(now)

    def _say(self, text: str, *, tells: bool) -> Say:
        return Say(self.address, self.step, text, tells)


class Guard:
    """Every card of the host. `has_answered`: the driver has, since the host was booted."""

    def __init__(self, settings: GuardSettings, baselines: Baselines) -> None:
        self.settings = settings
        self.baselines = baselines
        self.cards: dict[str, CardGuard] = {}
        self.has_answered = False
        self.request = Request()

    def restore(self, held: Sequence[Held]) -> None:
        for one in held:
            self.has_answered = True
            self._card(one.uuid, one.address).restore(one)

    @property
    def step(self) -> int:
        return max([self.request.step, *(card.step for card in self.cards.values())])

    @property
    def why(self) -> str:
        """Of the gravest step."""
        if self.request.step and self.request.step == self.step:
            return self.request.why
        reasons = [
            f"GPU {card.address}: {card.reason}"
            for card in self.cards.values()
            if card.step == self.step and card.reason
        ]
        return "; ".join(reasons)

    def see(
        self,
        now: float,
        asked: float,
        readings: Sequence[Reading],
        trouble: str = "",
        *,
        waits: bool = False,
        sets: bool = True,
    ) -> list[SetLimit | Say | PowerOff]:
        """`trouble`: why cards are missing among the readings, or all of them."""
        self.has_answered = self.has_answered or bool(readings)
        if not self.has_answered:
            return []
        by_uuid = {one.uuid: one for one in readings}
        done: list[SetLimit | Say | PowerOff] = []
        for one in readings:
            card = self._card(one.uuid, one.address)
            card.address = one.address
        reason = trouble or "nvidia-smi no longer reports it"
        for uuid, card in self.cards.items():
            done += card.see(now, asked, by_uuid.get(uuid), reason, waits=waits, sets=sets)
        for one in readings:
            done += self._compare(now, self.cards[one.uuid], one)
        return done

    def _compare(self, now: float, card: CardGuard, reading: Reading) -> Iterator[Say]:
        """With what it mostly is at this power, as long as nobody has changed that."""
        if card.rung or self.request.step >= LOWER_POWER:
            self.baselines.interrupt(card.uuid)
            return
        before, card.warning = card.warning, self.baselines.warning(now, reading)
        if card.warning and not before:
            yield Say(card.address, NOTIFY, card.warning)

    def order(self, now: float, request: Request) -> list[SetLimit | Say | PowerOff]:
        if request == self.request:
            return []
        self.request = request
        done: list[SetLimit | Say | PowerOff] = []
        for card in self.cards.values():
            done += card.order(now, request)
        text = f"step {STEPS[request.step]} was asked for: {request.why}"
        done.append(Say("", request.step, text if request.step else "what was asked for has ended"))
        if request.step == POWEROFF:
            done.append(PowerOff(request.why))
        return done

    def _card(self, uuid: str, address: str) -> CardGuard:
        if uuid not in self.cards:
            card = self.cards[uuid] = CardGuard(self.settings, uuid, address)
            # Of a card that comes later the same is wanted; nothing is known of its limit yet.
            list(card.order(float("-inf"), self.request))
        return self.cards[uuid]


def _completed(reading: Reading, before: Reading | None) -> Reading:
    """A limit that is not reported once is still there."""
    if before is None:
        return reading
    limit = before.limit if reading.limit is None else reading.limit
    least = before.least if reading.least is None else reading.least
    return reading._replace(limit=limit, least=least)


def _is_near(watts: float, other: float | None) -> bool:
    return other is not None and abs(watts - other) <= _ROUNDING_WATTS


def _lost_sensor(limits: GuardSettings, reading: Reading) -> str:
    if limits.gpu is not None and reading.celsius is None:
        return f"its temperature cannot be read ({reading.raw or 'nothing is reported'})"
    if limits.margin is not None and reading.margin is None:
        return "how many degrees are left to its T.Limit cannot be read"
    return ""


def _is_clear(limits: GuardSettings, reading: Reading) -> bool:
    below = ((limits.gpu, reading.celsius), (limits.memory, reading.memory))
    for limit, celsius in below:
        if limit is not None and celsius is not None and celsius > limit - CLEAR_CELSIUS:
            return False
    if limits.margin is None or reading.margin is None:
        return True
    return reading.margin >= limits.margin + CLEAR_CELSIUS
