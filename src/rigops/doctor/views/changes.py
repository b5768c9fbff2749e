"""What is not as it was when the baseline of a host was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import HOST, Evidence, Fix, Status, fix_by_hand
from rigops.doctor.views import pcie
from rigops.doctor.views.error_counters import KINDS, Counter, Kind
from rigops.doctor.views.observed import observed, observed_card
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.memory import SECTION as MEMORY
from rigops.record.baseline import Baseline, BaselineCard

SECTION: Final = "baseline"  # of evidence
_SHOWN: Final = 8
_TOLERANCE_WATTS: Final = 1.0
_SAME_WATTS: Final = 15.0  # of draw
_WARMER: Final = 15.0
_BUSY_PERCENT: Final = 50
_WARN_PER_MINUTE: Final = 1.0
_FAIL_PER_MINUTE: Final = 32.0
_LEAST_MINUTES: Final = 10.0  # so that a few errors while a link trains are no storm
_LEAST_SHARE: Final = 0.9  # of the memory: a new kernel keeps a little more for itself
_RESEAT: Final = (
    "power off, reseat the card, its riser and its power cables; where that was meant: "
    "`rigops doctor HOST --save-baseline`"
)
_RESEAT_RAM: Final = (
    "power off and reseat the modules; the BIOS lists what it finds; where that was meant: "
    "`rigops doctor HOST --save-baseline`"
)
_FORGOTTEN: Final = (
    "A card forgets it at each reboot. Declared in the inventory, apply sets it at each boot."
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """`text`: of the thing as it is. `before`: as it was; `is_growth`: or what came since then.

    `checks` may say the same of it; `brief`: beside their words, in place of `before`.
    """

    what: str
    subject: str
    status: Status
    text: str
    before: str
    was: object
    now: object
    evidence: tuple[Evidence, ...] = ()
    why: str = ""
    fix: Fix | None = None
    checks: tuple[str, ...] = ()
    brief: str = ""
    is_growth: bool = False

    def summary(self, day: str) -> str:
        if self.is_growth:
            return f"{self.text} since the baseline of {day}"
        return f"{self.text}; {self.before} at the baseline of {day}"

    def added(self, day: str) -> str:
        word = "since" if self.is_growth else "at"
        return f"({self.brief or self.before} {word} the baseline of {day})"


def is_other_machine(baseline: Baseline, now: Baseline) -> bool:
    """None of its network cards and GPUs is known; where they were not collected, its board."""
    was, there = set(baseline.machine), set(now.machine)
    if was and there:
        return not was & there
    return None not in {baseline.board, now.board} and baseline.board != now.board


@once
def changes(examined: Examined) -> tuple[Change, ...]:
    """None where the baseline is of another machine."""
    was, now = examined.baseline, observed(examined)
    if was is None or is_other_machine(was, now):
        return ()
    return (
        *_cards(examined, was, now),
        *_memory(examined, was, now),
        *_versions(was, now),
        *_counters(examined, was, now),
    )


def missing(was: Baseline, now: Baseline) -> tuple[str, ...]:
    """Parts of a baseline that another look has not."""
    parts: dict[str, tuple[object, object]] = {
        "cards": (was.cards, now.cards),
        "values of nvidia-smi": (_has_smi(was), _has_smi(now)),
        "memory modules": (was.modules, now.modules),
        "BIOS": (was.bios, now.bios),
        "driver": (was.driver, now.driver),
    }
    for name, kind in KINDS.items():
        parts[kind.words] = (was.counters.get(name), now.counters.get(name))
    return tuple(
        name for name, (then, there) in parts.items() if then is not None and there is None
    )


def _has_smi(one: Baseline) -> bool | None:
    return any(card.uuid for card in one.cards or ()) or None


# Cards


def _cards(examined: Examined, was: Baseline, now: Baseline) -> Iterator[Change]:
    there = [observed_card(examined, card) for card in examined.cards]
    for old in was.cards or ():
        new = _same(old, there)
        if new is not None:
            there.remove(new)
            yield from _card(examined, old, new)
        elif now.cards is not None:
            yield _gone(old)
    if was.cards is not None:
        yield from map(_new, there)


def _same(old: BaselineCard, cards: Iterable[BaselineCard]) -> BaselineCard | None:
    """By its UUID, or by its address where that is not known."""
    for card in cards:
        if card.uuid == old.uuid if old.uuid and card.uuid else card.address == old.address:
            return card
    return None


def _gone(old: BaselineCard) -> Change:
    return Change(
        what="card",
        subject=f"gpu {old.address}",
        status="fail",
        text=f"{old.name} is gone",
        before="there",
        brief=f"{old.name} at {old.address}",
        was=old.uuid or old.name,
        now=None,
        why="A card that does not appear on the bus has no power, no contact, or no slot that is "
        "switched on.",
        fix=fix_by_hand(_RESEAT),
        checks=("gpu.lost", "gpu.count"),
    )


def _new(card: BaselineCard) -> Change:
    return Change(
        what="card",
        subject=f"gpu {card.address}",
        status="info",
        text=f"{card.name} is new",
        before="not there",
        was=None,
        now=card.uuid or card.name,
    )


def _card(examined: Examined, old: BaselineCard, new: BaselineCard) -> Iterator[Change]:
    card = next(one for one in examined.cards if one.address == new.address)
    evidence = pcie.lanes_of(examined, card).evidence
    if old.address != new.address:
        yield _of_card(new, "address", "info", "its address is {}", (old.address, new.address))
    for fact in _FACTS:
        was, now = fact.value(old), fact.value(new)
        if was is None or now is None or was == now:
            continue
        is_less = isinstance(was, int) and isinstance(now, int) and now < was
        yield Change(
            what=fact.what,
            subject=f"gpu {new.address}",
            status=(is_less and fact.lower) or "info",
            text=f"{new.name}: {fact.text.format(now)}",
            before=fact.text.format(was),
            was=was,
            now=now,
            evidence=evidence if fact.what == "lanes" else (),
            why=fact.why,
            fix=fact.fix if is_less else None,
            checks=fact.checks,
        )
    yield from _settings(examined, old, new)
    yield from _warmth(old, new)


def _of_card(
    card: BaselineCard,
    what: str,
    status: Status,
    text: str,
    values: tuple[object, object],
    *,
    why: str = "",
    fix: Fix | None = None,
) -> Change:
    """`values`: then and now, for `text`."""
    was, now = values
    return Change(
        what=what,
        subject=f"gpu {card.address}",
        status=status,
        text=f"{card.name}: {text.format(now)}",
        before=text.format(was),
        was=was,
        now=now,
        why=why,
        fix=fix,
    )


@dataclass(frozen=True, kw_only=True)
class _Fact:
    """`lower`: the status where the value is less than before; None: any difference is harmless."""

    what: str
    value: Callable[[BaselineCard], int | str | None]
    text: str
    lower: Status | None = None
    why: str = ""
    fix: Fix | None = None
    checks: tuple[str, ...] = ()


_FACTS: Final = (
    _Fact(
        what="lanes",
        value=lambda card: card.lanes,
        text="link x{}",
        lower="fail",
        why="The card trains fewer lanes than it did: a bad contact, a riser or a cable, or a slot "
        "that shares its lanes with another one that is in use now.",
        fix=fix_by_hand(_RESEAT),
        checks=("pci.width",),
    ),
    _Fact(
        what="generation",
        value=lambda card: card.generation,
        text="PCIe up to generation {}",
        lower="warn",
        why="The slot, a riser or a setting of the BIOS allows less than before.",
        fix=fix_by_hand(
            "set the slot's PCIe speed to Auto, or its generation, in the BIOS; try another riser"
        ),
        checks=("pci.gen.load",),
    ),
    _Fact(
        what="bar1",
        value=lambda card: card.bar1_mib,
        text="BAR1 {} MiB",
        lower="warn",
        why="A BIOS that was updated or reset has Above 4G Decoding and Resizable BAR off again.",
        fix=fix_by_hand("switch Above 4G Decoding and Re-Size BAR on in the BIOS"),
        checks=("bar1.size",),
    ),
    _Fact(
        what="nvlinks",
        value=lambda card: card.nvlinks,
        text="{} NVLinks up",
        lower="fail",
        why="Copies between the cards have less than their wires can carry.",
        fix=fix_by_hand("power off and reseat the bridge, or the module on its board"),
        checks=("nvl.state",),
    ),
    _Fact(what="vbios", value=lambda card: card.vbios, text="VBIOS {}"),
)


def _settings(examined: Examined, old: BaselineCard, new: BaselineCard) -> Iterator[Change]:
    """Those that are not declared: checks judge the others."""
    was, now, default = old.watts_limit, new.watts_limit, new.watts_default
    is_other = was is not None and now is not None and abs(was - now) > _TOLERANCE_WATTS
    if is_other and was and now and examined.spec.gpu_power_limit is None:
        is_reset = default is not None and abs(now - default) <= _TOLERANCE_WATTS
        change = _of_card(
            new,
            "power_limit",
            "warn" if is_reset else "info",
            "power limit {:g} W",
            (was, now),
            why=_FORGOTTEN,
            fix=_declaring("gpu_power_limit", was) if is_reset else None,
        )
        yield replace(change, text=f"{change.text}, its default") if is_reset else change
    clock, limit = new.mhz_application, old.mhz_application
    if clock and limit and clock != limit and examined.spec.gpu_clocks is None:
        is_reset = clock > limit
        yield _of_card(
            new,
            "clocks",
            "warn" if is_reset else "info",
            "application clock {} MHz",
            (limit, clock),
            why=_FORGOTTEN,
            fix=fix_by_hand('declare "gpu_clocks"') if is_reset else None,
        )


def _declaring(key: str, value: float) -> Fix:
    return Fix(
        kind="apply",
        concern="gpu_tuning",
        declare={key: int(value) if value == int(value) else value},
        text="`rigops apply` sets it at each boot",
        by_hand=f'declare "{key}": {value:g}',
    )


def _warmth(old: BaselineCard, new: BaselineCard) -> Iterator[Change]:
    """Under load it is about the cooler; at idle a job may just have ended."""
    if old.celsius is None or new.celsius is None or old.watts is None or new.watts is None:
        return
    if abs(new.watts - old.watts) > _SAME_WATTS or new.celsius - old.celsius < _WARMER:
        return
    is_busy = all((one.utilization_percent or 0) >= _BUSY_PERCENT for one in (old, new))
    yield _of_card(
        new,
        "temperature",
        "warn" if is_busy else "info",
        f"{{:g}} °C at {new.watts:g} W",
        (old.celsius, new.celsius),
        why="At the same power it is warmer: dust, a fan, dry paste, or a warmer room.",
        fix=fix_by_hand("clean the coolers, look at the fans, and give the cards air")
        if is_busy
        else None,
    )


# The host


def _memory(examined: Examined, was: Baseline, now: Baseline) -> Iterator[Change]:
    lines = tuple(
        Evidence(MEMORY.name, line)
        for one in examined.snapshot[MEMORY].or_empty.modules
        for line in one.lines
    )[:_SHOWN]
    if was.modules is not None and now.modules is not None:
        then, there = len(was.modules), len(now.modules)
        gone = [one for one in was.modules if one not in now.modules]
        if then != there:
            places = ", ".join(one.place for one in gone[:_SHOWN] if one.place)
            yield Change(
                what="memory",
                subject=HOST,
                status="fail" if there < then else "info",
                text=f"{there} memory modules"
                + (f" (without: {places})" if places and there < then else ""),
                before=f"{then}",
                was=then,
                now=there,
                evidence=lines,
                why="A module that is not found costs its channel: memory is slower and smaller.",
                fix=fix_by_hand(_RESEAT_RAM) if there < then else None,
                checks=("mem.dimm",),
            )
            return
    if was.channels and now.channels and now.channels < was.channels:
        yield Change(
            what="channels",
            subject=HOST,
            status="fail",
            text=f"{now.channels} memory channels have modules",
            before=f"{was.channels}",
            was=was.channels,
            now=now.channels,
            evidence=lines,
            why="Memory is as fast as its channels together.",
            fix=fix_by_hand(_RESEAT_RAM),
            checks=("mem.dimm",),
        )
    elif was.memory_kib and now.memory_kib and now.memory_kib < was.memory_kib * _LEAST_SHARE:
        then, there = was.memory_kib >> 20, now.memory_kib >> 20
        yield Change(
            what="memory",
            subject=HOST,
            status="fail",
            text=f"the kernel has {there} GiB of memory",
            before=f"{then} GiB",
            was=then,
            now=there,
            evidence=(Evidence(MEMORY.name, examined.snapshot[MEMORY].or_empty.total_line),),
            why="The firmware has taken a module out, or one has lost contact.",
            fix=fix_by_hand(_RESEAT_RAM),
            checks=("mem.dimm",),
        )


def _versions(was: Baseline, now: Baseline) -> Iterator[Change]:
    for what, then, there in (("BIOS", was.bios, now.bios), ("driver", was.driver, now.driver)):
        if then and there and then != there:
            yield Change(
                what=what.lower(),
                subject=HOST,
                status="info",
                text=f"{what} {there}",
                before=then,
                was=then,
                now=there,
            )


# Counters of errors


@dataclass(frozen=True)
class _Growth:
    counter: Counter
    was: int
    grown: int


def _counters(examined: Examined, was: Baseline, now: Baseline) -> Iterator[Change]:
    for name, kind in KINDS.items():
        found = kind.read(examined)
        then = was.counters.get(name)
        if found is None or then is None:
            continue
        by_subject: dict[str, list[_Growth]] = {}
        for one in _grown(kind, then, found, was, now):
            by_subject.setdefault(one.counter.subject, []).append(one)
        for subject, grown in by_subject.items():
            yield _growth(examined, name, subject, grown)


def _grown(
    kind: Kind, then: Mapping[str, int], found: Mapping[str, Counter], was: Baseline, now: Baseline
) -> Iterator[_Growth]:
    """A counter that is lower than it was has begun again: all of it came since then."""
    both = {place: one for place, one in found.items() if place in then}
    has_restarted = (
        kind.restarts and None not in {was.boot_id, now.boot_id} and (was.boot_id != now.boot_id)
    )
    left = sum(one.count for one in both.values()) - sum(then[place] for place in both)
    for place, one in both.items():
        before = then[place]
        grown = one.count if has_restarted or one.count < before else one.count - before
        if kind.moves:  # two disks may have changed names
            grown = min(grown, left)
        if grown > 0:
            yield _Growth(one, before, grown)


def _growth(examined: Examined, name: str, subject: str, grown: Sequence[_Growth]) -> Change:
    kind = KINDS[name]
    most = max(one.grown for one in grown)  # both ends of a link count the same error
    named = ", ".join(
        f"{one.counter.label} +{one.grown}" if one.counter.label else f"+{one.grown}"
        for one in grown[:_SHOWN]
    )
    status = kind.grown if most > kind.harmless else "info"
    if kind.is_rate:
        status = _by_rate(most, _minutes(examined))
    return Change(
        what=name,
        subject=subject,
        status=status,
        text=f"{kind.words}: {named}",
        before=named,
        was=sum(one.was for one in grown),
        now=sum(one.counter.count for one in grown),
        evidence=tuple(line for one in grown for line in one.counter.evidence)[:_SHOWN],
        why=""
        if status == "info"
        else "It goes on: what was counted before is not in this number.",
        fix=fix_by_hand(kind.fix) if kind.fix and status in {"fail", "warn"} else None,
        checks=kind.checks,
        is_growth=True,
    )


def _by_rate(count: int, minutes: float | None) -> Status:
    if minutes is None:
        return "info"
    rate = count / max(minutes, _LEAST_MINUTES)
    if rate > _FAIL_PER_MINUTE:
        return "fail"
    return "warn" if rate > _WARN_PER_MINUTE else "info"


def _minutes(examined: Examined) -> float | None:
    """Since the baseline, or since the start where that was later, or a clock was wrong."""
    was, at = examined.baseline, examined.snapshot.collected_at
    uptime = examined.snapshot[BOOT].or_empty.uptime_s
    passed = _seconds(was.at, at) if was and at else None
    known = [one for one in (uptime, passed) if one is not None and one >= 0]
    return min(known) / 60 if known else None


def _seconds(first: str, last: str) -> float:
    begin, end = (datetime.fromisoformat(one.replace("Z", "+00:00")) for one in (first, last))
    return (end - begin).total_seconds()
