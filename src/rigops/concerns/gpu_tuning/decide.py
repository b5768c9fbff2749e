"""Which settings each card gets, checked against what the card itself accepts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from rigops.catalog import Catalog, find_gpu
from rigops.catalog.model import ARCHITECTURES, Gpu
from rigops.concerns.gpu_tuning import record
from rigops.concerns.gpu_tuning.state import WORDS, Lowered, Shown, Wanted, judge_cards, state_of
from rigops.concerns.state import LEFT_OVER, REFUSED, State
from rigops.concerns.thermal_guard import record as guard
from rigops.dataclass import dataclass
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.choice import GpuIdentity, choose, uuids_of, without_a_card
from rigops.inventory.spec.model import PerGpu, PowerLimit
from rigops.probe.lost_cards import ADVICE, LostCard, lost_cards, sentence
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import Pci
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.smi.report import SmiGpu, SmiReport

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

Value = TypeVar("Value")

_ABOVE_DEFAULT: Final = 100  # percent


@dataclass(frozen=True, kw_only=True)
class TunedCard:
    identity: GpuIdentity
    smi: SmiGpu
    model: Gpu | None

    @property
    def key(self) -> str:
        return self.identity.uuid or self.identity.address

    @property
    def subject(self) -> str:
        return f"GPU {self.identity.address} ({self.smi.name or 'unknown model'})"

    def is_at_least(self, architecture: str) -> bool:
        """True where its architecture is not known: the card itself answers then."""
        own = self.model.architecture if self.model else self.smi.architecture or ""
        order = [name for name in ARCHITECTURES if own.startswith(name)]
        return not order or ARCHITECTURES.index(order[0]) >= ARCHITECTURES.index(architecture)

    @property
    def is_blackwell(self) -> bool:
        own = self.model.architecture if self.model else self.smi.architecture or ""
        return own.startswith("Blackwell")


@dataclass(frozen=True)
class Tuning:
    """`refused`: what a card does not accept of what is declared; `blockers` has it as well."""

    wanted: tuple[Wanted, ...] = ()
    blockers: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    refused: tuple[State, ...] = ()


class _RefusedError(Exception):
    """Declared values that a card does not accept."""


def find_cards(report: SmiReport, catalog: Catalog) -> tuple[TunedCard, ...]:
    found = []
    for smi in report.gpus:
        name = (smi.name or "").removeprefix("NVIDIA ")
        model = find_gpu(catalog, name).only if name else None
        known = (model.name, *model.aliases) if model else ()
        identity = GpuIdentity(smi.address or "", smi.uuid, (*known, *filter(None, [smi.name])))
        if identity.address or identity.uuid:
            found.append(TunedCard(identity=identity, smi=smi, model=model))
    return tuple(found)


def unreadable(report: SmiReport, lost: Iterable[LostCard] = ()) -> str:
    """Why the cards cannot be set, or nothing. `lost`: cards that are known to be."""
    if report.failure == "mismatch":
        return "nvidia-smi does not match the loaded driver: reboot the host"
    if report.failure == "lost":
        return f"{sentence(lost) or 'a card is lost'}, so nothing is set. fix: {ADVICE}"
    if report.failure is None and report.gpus:
        cut = "the output of nvidia-smi is cut, so the cards' values are not known"
        return "" if report.is_complete else f"{cut}. fix: run this again"
    line = report.failure_lines[0].strip() if report.failure_lines else "nvidia-smi is silent"
    if report.failure == "not-installed":
        line = "there is no nvidia-smi, or it did not end"
    return f"no NVIDIA driver answers ({line}). fix: declare driver, or load the installed one"


def resolve(spec: RigSpec, cards: Sequence[TunedCard]) -> Tuning:
    blockers = [*_selection_errors("gpu_power_limit", spec.gpu_power_limit, cards)]
    blockers += _selection_errors("gpu_clocks", spec.gpu_clocks, cards)
    uuids = uuids_of(card.identity for card in cards)
    wanted: list[Wanted] = []
    refusals: list[tuple[TunedCard, str, str]] = []
    notices: list[tuple[TunedCard, str]] = []
    for card in cards:
        lines: list[Wanted] = []
        for setting, lines_of in (("power", _limit), ("graphics", _clocks)):
            try:
                found = list(lines_of(spec, card, uuids))
            except _RefusedError as error:
                refusals.append((card, setting, str(error)))
                continue
            lines += found
        if lines and spec.gpu_persistence is False:
            text = (
                f"gpu_persistence = False: without persistence {card.subject} forgets its power "
                'limit and clocks. fix: declare "gpu_persistence": True, or drop them'
            )
            refusals.append((card, "persistence", text))
        is_implied = bool(lines) and spec.gpu_persistence is None
        if is_implied and card.smi.persistence is False:
            text = (
                f"{card.subject}: persistence is turned on too, or the driver forgets power limit "
                "and clocks with the last program"
            )
            notices.append((card, text))
        if card.smi.persistence is not None and (is_implied or spec.gpu_persistence is not None):
            value = "0" if spec.gpu_persistence is False else "1"
            lines.insert(0, Wanted(card.key, card.identity.address, "persistence", value))
        if card.is_blackwell and any(one.setting == "memory" for one in lines):
            text = (
                f"{card.subject}: any limit of the memory clock cost 16 to 32 % of speed on an RTX "
                "5090, even above the clock it reached (open-gpu-kernel-modules#1265)"
            )
            notices.append((card, text))
        wanted += lines
    blockers += _once([(card, text) for card, _, text in refusals])
    refused = tuple(
        state_of(Wanted(card.key, card.identity.address, setting, ""), "", REFUSED, text)
        for card, setting, text in refusals
    )
    return Tuning(tuple(wanted), tuple(blockers), tuple(_once(notices)), refused)


def _once(said: Sequence[tuple[TunedCard, str]]) -> Iterator[str]:
    """A text for several cards of a model is one line, and names them all."""
    addresses: dict[tuple[str, str], list[str]] = {}
    for card, text in said:
        before, _, after = text.partition(f"GPU {card.identity.address}")
        addresses.setdefault((before, after), []).append(card.identity.address)
    for (before, after), every in addresses.items():
        gpus = f"each of GPUs {', '.join(every)}" if len(every) > 1 else f"GPU {every[0]}"
        yield f"{before}{gpus}{after}"


def _selection_errors(
    key: str, choices: PerGpu[Value] | None, cards: Sequence[TunedCard]
) -> Iterator[str]:
    if choices is None:
        return
    every = [card.identity for card in cards]
    uuids = uuids_of(every)
    for selector in without_a_card(choices, every):
        yield f"{key}: {selector.text!r} is no GPU of this host, {_present(cards, selector.kind)}"
    for card in cards:
        choice = choose(choices, card.identity, uuids)
        if choice.equals and choice.selector:
            names = " and ".join(repr(one.text) for one in (choice.selector, *choice.equals))
            yield (
                f"{key}: {names} fit {card.subject} equally. fix: name it by UUID "
                f"({card.identity.uuid}) or PCI address"
            )


def _present(cards: Sequence[TunedCard], kind: str) -> str:
    """Which ones it has, and how to name them in the same way."""
    names = Counter(card.smi.name or "unknown model" for card in cards)
    have = ", ".join(
        f"{count}x {name.removeprefix('NVIDIA ').removeprefix('GeForce ')}"
        for name, count in names.items()
    )
    by_kind = {
        "address": [card.identity.address for card in cards],
        "uuid": [card.identity.uuid or card.identity.address for card in cards],
    }
    names_of_models = [
        min(card.model.aliases, key=len, default=card.model.name) if card.model else card.smi.name
        for card in cards
    ]
    written = dict.fromkeys(filter(None, by_kind.get(kind, names_of_models)))
    return f"which has {have}. fix: write " + " or ".join(f'"{one}"' for one in written)


def _limit(spec: RigSpec, card: TunedCard, uuids: frozenset[str]) -> Iterator[Wanted]:
    declared = spec.gpu_power_limit
    power = choose(declared, card.identity, uuids).value if declared else None
    if power is not None:
        yield Wanted(card.key, card.identity.address, "power", f"{_watts(power, card):g}")


def _clocks(spec: RigSpec, card: TunedCard, uuids: frozenset[str]) -> Iterator[Wanted]:
    where = (card.key, card.identity.address)
    declared = spec.gpu_clocks
    clocks = choose(declared, card.identity, uuids).value if declared else None
    if clocks is None:
        return
    if clocks.graphics_mhz:
        if card.is_at_least("Volta"):
            _check_range("graphics", clocks.graphics_mhz, card)
            yield Wanted(*where, "graphics", _pair(clocks.graphics_mhz))
        else:
            pair = _application_instead(clocks.graphics_mhz, card)
            yield Wanted(*where, "application", _pair(pair))
    if clocks.memory_mhz:
        if not card.is_at_least("Ampere"):
            raise _RefusedError(
                f'gpu_clocks = "memory={_pair(clocks.memory_mhz)}": {card.subject} cannot lock its '
                'memory clock (Ampere or newer can). fix: declare "application=MEMORY,GRAPHICS"'
            )
        _check_range("memory", clocks.memory_mhz, card)
        yield Wanted(*where, "memory", _pair(clocks.memory_mhz))
    if clocks.application_mhz:
        _check_application(clocks.application_mhz, card)
        yield Wanted(*where, "application", _pair(clocks.application_mhz))


def _pair(clocks: tuple[int, int]) -> str:
    return f"{clocks[0]},{clocks[1]}"


def _watts(declared: PowerLimit, card: TunedCard) -> float:
    smi = card.smi
    written = f"{declared.watts:g}" if declared.watts is not None else f'"{declared.percent:g}%"'
    begins = f"gpu_power_limit = {written}: {card.subject}"
    if smi.watts_min is None and smi.watts_max is None and smi.watts_requested is None:
        raise _RefusedError(
            f'{begins} takes no power limit, as laptop cards do not. fix: declare "gpu_clocks": '
            '"graphics=LOWEST,HIGHEST"'
        )
    watts = declared.watts
    if watts is None:
        if smi.watts_default is None:
            raise _RefusedError(f"{begins} does not report its default. fix: declare watts")
        watts = round(smi.watts_default * (declared.percent or _ABOVE_DEFAULT) / 100, 2)
        begins = f"{begins}: {watts:g} W"
    least, most = smi.watts_min, smi.watts_max
    if (least is not None and watts < least) or (most is not None and watts > most):
        accepted = " to ".join(f"{one:g}" if one is not None else "?" for one in (least, most))
        raise _RefusedError(f"{begins} accepts {accepted} W. fix: declare one of those")
    return watts


def _check_range(name: str, clocks: tuple[int, int], card: TunedCard) -> None:
    listed = card.smi.listed_mhz
    if name == "graphics":
        known = [mhz for graphics in listed.values() for mhz in graphics]
        most = card.smi.mhz_max_graphics
    else:
        known, most = list(listed), card.smi.mhz_max_memory
    highest = max([*known, *([most] if most else [])], default=None)
    lowest = min(known, default=None)
    if (highest is not None and clocks[1] > highest) or (lowest is not None and clocks[0] < lowest):
        raise _RefusedError(
            f'gpu_clocks = "{name}={_pair(clocks)}": {card.subject} accepts '
            f"{lowest or '?'} to {highest} MHz. fix: declare clocks in that range"
        )


def _check_application(clocks: tuple[int, int], card: TunedCard) -> None:
    written = f'gpu_clocks = "application={_pair(clocks)}": {card.subject}'
    if not _has_application_clocks(card.smi):
        raise _RefusedError(
            f'{written} has no application clocks. fix: declare "graphics=LOWEST,{clocks[1]}"'
        )
    listed = card.smi.listed_mhz
    if not listed or clocks[1] in listed.get(clocks[0], ()):
        return
    if clocks[0] not in listed:
        accepted = ", ".join(map(str, sorted(listed)))
        raise _RefusedError(
            f"{written} lists no memory clock of {clocks[0]} MHz, but {accepted}. fix: declare one "
            "of those (MEMORY,GRAPHICS)"
        )
    graphics = listed[clocks[0]]
    nearest = sorted(sorted(graphics, key=lambda mhz: abs(mhz - clocks[1]))[:2])
    raise _RefusedError(
        f"{written} lists graphics clocks of {min(graphics)} to {max(graphics)} MHz, but not "
        f"{clocks[1]}. fix: declare {' or '.join(map(str, nearest))}"
    )


def _has_application_clocks(smi: SmiGpu) -> bool:
    """Of those that the driver calls deprecated, that is not known: the card itself answers."""
    raw = smi.raw.get("applications_clocks/graphics_clock", "")
    return smi.mhz_application_graphics is not None or "deprecated" in raw.lower()


def _application_instead(clocks: tuple[int, int], card: TunedCard) -> tuple[int, int]:
    """The nearest to a lock that cards before Volta have: a highest clock alone."""
    written = f'gpu_clocks = "graphics={_pair(clocks)}": {card.subject} cannot lock its clocks'
    listed = card.smi.listed_mhz
    memory = card.smi.mhz_application_memory or max(listed, default=0)
    fitting = [mhz for mhz in listed.get(memory, ()) if mhz <= clocks[1]]
    if not _has_application_clocks(card.smi) or not memory:
        raise _RefusedError(
            f"{written} (Volta or newer can), and has no application clocks. fix: leave it out"
        )
    if not fitting:
        raise _RefusedError(f"{written}, and lists none up to {clocks[1]} MHz. fix: declare more")
    return memory, max(fitting)


def states(spec: RigSpec, snapshot: HostSnapshot, catalog: Catalog) -> list[State]:
    """Without a check: what is in the way of all."""
    report, rigops = snapshot[SMI].or_empty, snapshot[RIGOPS_STATE]
    cards = find_cards(report, catalog)
    tuning = resolve(spec, cards)
    # Set values are known of the present boot alone, and where no record can be missing.
    boot_id = snapshot[BOOT].or_empty.boot_id if rigops.is_complete else None
    lost = lost_cards(snapshot).values()
    reasons = filter(None, (unreadable(report, lost), *tuning.blockers))
    return [
        *(State("", "host", "", "", "", REFUSED, reason) for reason in reasons),
        *tuning.refused,
        *judged(tuning.wanted, cards, rigops.or_empty.records, boot_id),
    ]


def judged(
    wanted: Sequence[Wanted],
    cards: Sequence[TunedCard],
    records: Mapping[str, str],
    boot_id: str | None,
) -> list[State]:
    """`records`: those of rigops on the host. Without `boot_id` it is not known what was set."""
    was_set = record.in_this_boot(records.get(record.PATH, ""), boot_id) if boot_id else None
    lowered = {
        key: Lowered(one.watts, one.why)
        for key, one in guard.lowered(records).items()
        if one.watts is not None
    }
    shown = {(card.key, card.identity.address): _shown(card.smi) for card in cards}
    pairs = [(one, shown[one.card, one.address][one.setting]) for one in wanted]
    return judge_cards(pairs, was_set, lowered)


def _shown(smi: SmiGpu) -> dict[str, Shown]:
    pair = (smi.mhz_application_memory, smi.mhz_application_graphics)
    return {
        "persistence": Shown({True: "1", False: "0", None: ""}[smi.persistence]),
        "power": Shown(_text(smi.watts_requested), _text(smi.watts_limit)),
        "graphics": Shown(most=_text(smi.mhz_graphics)),
        "memory": Shown(most=_text(smi.mhz_memory)),
        "application": Shown("" if None in pair else f"{pair[0]},{pair[1]}"),
    }


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def headlines(pending: Iterable[State], *, is_declared: bool = True) -> Iterator[str]:
    """Each change with its values, and how many cards have it.

    `is_declared`: whether anything of the concern is; else the plan says of all that it is not.
    """
    alike = Counter((one.name, one.now, one.wanted, one.status) for one in pending)
    for (name, now, wanted, status), count in alike.items():
        where = "for" if wanted == "on" else "on"
        gone = " (no longer declared here)" if is_declared and status == LEFT_OVER else ""
        yield f"{name} {now} -> {wanted} {where} {count} card{'s' * (count > 1)}{gone}"


def subject(address: str, setting: str) -> str:
    return f"GPU {address} {WORDS[setting]}"


def foreseen(power: PerGpu[PowerLimit] | None, pci: Pci, catalog: Catalog) -> Iterator[str]:
    """Where no driver answers yet: limits that the catalog takes for impossible."""
    cards = [
        (GpuIdentity(one.address, None, (model.name, *model.aliases) if model else ()), model)
        for one in pci.nvidia_gpus
        for model in [find_gpu(catalog, f"10de:{one.device:04x}").only if one.device else None]
    ]
    uuids = uuids_of(identity for identity, _ in cards)
    for identity, model in cards:
        choice = choose(power, identity, uuids).value if power else None
        if model is None or choice is None:
            continue
        watts = choice.watts
        if watts is None:
            watts = model.watts_default * (choice.percent or _ABOVE_DEFAULT) / 100
        if (model.watts_min and watts < model.watts_min) or (
            model.watts_max and watts > model.watts_max
        ):
            yield (
                f"gpu_power_limit: {watts:g} W for GPU {identity.address}: a {model.name} mostly "
                f"accepts {model.watts_min or '?'} to {model.watts_max or '?'} W; the card decides "
                "once the driver is loaded"
            )
