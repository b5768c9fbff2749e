"""Pairs that are slower than the best pair of the same kind. Pure.

Of one kind are pairs with the same link in `nvidia-smi topo -m`, the same models in the same
direction, and slots that can do the same: whatever differs in one of these may differ in speed
without a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog, find_gpu, load, nvlink, pcie_link
from rigops.catalog.model import Link
from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import OK, REFUSED, STATUS_OF, WARN
from rigops.preflight.found import PairFound, SlowPair
from rigops.record import Pair

if TYPE_CHECKING:
    from rigops.preflight.payload import PayloadReport, Slot
    from rigops.record.journal import Run

_SLOWER: Final = 0.9  # of the best; closer than that is noise


@dataclass(frozen=True)
class LastRates:
    """The measurements of the host's last proof, and its day."""

    day: str = ""
    pairs: tuple[Pair, ...] = ()

    def rate(self, pair: PairFound) -> float | None:
        for one in self.pairs:
            if (one.source, one.target) == (pair.source, pair.target):
                return one.gb_per_s
        return None


def last_rates(runs: Iterable[Run]) -> LastRates | None:
    """`runs`: newest first."""
    for run in runs:
        proof = run.preflight
        if proof and proof.status in {OK, WARN} and run.outcome != "not_proven" and proof.pairs:
            return LastRates(run.at[:10], proof.pairs)
    return None


def slow_pairs(
    pairs: Sequence[PairFound],
    answer: PayloadReport,
    *,
    last: LastRates | None = None,
    catalog: Catalog | None = None,
) -> tuple[SlowPair, ...]:
    """`pairs` with their links."""
    return tuple(_slow(pairs, answer, last or LastRates(), catalog))


def _slow(
    pairs: Sequence[PairFound], answer: PayloadReport, last: LastRates, catalog: Catalog | None
) -> Iterator[SlowPair]:
    models = {gpu.address: gpu.name for gpu in answer.gpus}
    kinds: dict[object, list[PairFound]] = {}
    for pair in pairs:
        if _is_measured(pair) and pair.link:
            kinds.setdefault(_kind(pair, models, answer.slots), []).append(pair)
    for alike in kinds.values():
        best = max(alike, key=_rate)
        for pair in alike:
            if _rate(pair) < round(_rate(best) * _SLOWER, 3):
                yield SlowPair(
                    pair=pair,
                    best=best,
                    expected=_expected(pair, models, answer.slots, catalog or load()),
                    before=last.rate(pair),
                    day=last.day,
                )


def _is_measured(pair: PairFound) -> bool:
    return STATUS_OF[pair.verdict] == OK and pair.verdict not in REFUSED and _rate(pair) > 0


def _rate(pair: PairFound) -> float:
    return pair.gb_per_s or 0.0


def _kind(pair: PairFound, models: Mapping[str, str], slots: Mapping[str, Slot]) -> object:
    ends = pair.source, pair.target
    if pair.link.startswith("NV"):
        return pair.link, *map(models.get, ends)
    return pair.link, *map(models.get, ends), *map(slots.get, ends)


def _expected(
    pair: PairFound, models: Mapping[str, str], slots: Mapping[str, Slot], catalog: Catalog
) -> Link | None:
    ends = pair.source, pair.target
    if pair.link.startswith("NV"):
        cards = [find_gpu(catalog, models.get(end, "")).only for end in ends]
        known = [card for card in cards if card]
        return nvlink(catalog, known, int(pair.link[2:])) if len(known) == len(ends) else None
    found = [slots[end] for end in ends if end in slots]
    if len(found) < len(ends):
        return None
    return pcie_link(
        catalog,
        min(slot.generation for slot in found),
        min(slot.width for slot in found),
        across_sockets=pair.link == "SYS",
    )
