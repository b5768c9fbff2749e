"""The results of preflight on a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Annotated, Final

from rigops.catalog.model import Link
from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.hostside.p2p.verdict import (
    ALONE,
    COLLECTIVES,
    LEVELS,
    NOT_PROVEN,
    OK,
    SKIPPED,
    VERDICTS,
    WARN,
    gravest,
)
from rigops.json_dataclass import NAME, to_json
from rigops.json_fields import Fields
from rigops.record.proven import no_access

if TYPE_CHECKING:
    from rigops.preflight.changes import Change, LinkSeen


@dataclass(frozen=True)
class GpuSeen:
    address: str
    name: str


@dataclass(frozen=True)
class Machine:
    """Each empty where it is not known."""

    board: str = ""
    kernel: str = ""
    driver: str = ""  # the loaded module


def one_of(accepted: Collection[str]) -> Callable[[Fields, str], str]:
    """A reader of fields that have one of these."""

    def read(given: Fields, name: str) -> str:
        found = given.text(name)
        if found not in accepted:
            raise given.wrong(name, found, ", ".join(accepted))
        return found

    return read


@dataclass(frozen=True)
class PairFound:
    source: str = field(metadata={NAME: "from"})  # PCI addresses
    target: str = field(metadata={NAME: "to"})
    verdict: Annotated[str, one_of(VERDICTS)]
    level: Annotated[str, one_of(LEVELS)]
    gb_per_s: float | None = None
    both_ways_gb_per_s: float | None = None
    staged_gb_per_s: float | None = None
    latency_us: float | None = None
    round_trip_us: float | None = None  # of a flag and its answer
    together_gb_per_s: float | None = None  # while each card sends to one and receives from one
    evidence: tuple[str, ...] = ()
    link: str = ""  # as `nvidia-smi topo -m` names it; empty: not known

    @property
    def is_only_copied(self) -> bool:
        """Nothing is wrong, and kernels have not been tried."""
        return self.verdict == "ok" and self.level < ALONE

    def as_json(self) -> dict[str, object]:
        return {**to_json(self), "link": self.link or None}


@dataclass(frozen=True, kw_only=True)
class SlowPair:
    pair: PairFound
    best: PairFound
    expected: Link | None  # of this kind of link, by the catalog
    before: float | None  # GB/s at the last proof
    day: str  # of the last proof

    def __str__(self) -> str:
        slow, best = self.pair.gb_per_s or 0.0, self.best.gb_per_s or 0.0
        text = (
            f"{self.pair.source} to {self.pair.target}: {slow:.1f} GB/s, {1 - slow / best:.0%} "
            f"slower than {self.best.source} to {self.best.target} ({best:.1f} GB/s) with the same "
            f"link ({self.pair.link}) and cards"
        )
        if self.expected is not None:
            text += f"; the catalog expects {_range(self.expected)} of {self.expected.name}"
        if self.before is not None:
            text += f"; {self.before:.1f} GB/s at the proof of {self.day}"
        return text

    def as_json(self) -> dict[str, object]:
        expected = self.expected
        return {
            "from": self.pair.source,
            "to": self.pair.target,
            "gb_per_s": self.pair.gb_per_s,
            "best": {
                "from": self.best.source,
                "to": self.best.target,
                "gb_per_s": self.best.gb_per_s,
            },
            "expected": {
                "link": expected.name,
                "gb_per_s": [expected.slowest, expected.fastest],
                "measured": expected.measured,
            }
            if expected
            else None,
            "last_proof": {"day": self.day, "gb_per_s": self.before}
            if self.before is not None
            else None,
        }


@dataclass(frozen=True, kw_only=True)
class Collapsed:
    """A pair that has less than half of its share while all cards copy.

    `switch`: that it passes; empty: none that is known. `model`: of the switch.
    """

    turn: int
    source: str = field(metadata={NAME: "from"})
    target: str = field(metadata={NAME: "to"})
    gb_per_s: float
    expected_gb_per_s: float
    switch: str
    model: str

    @property
    def named_switch(self) -> str:
        return f"{self.switch} ({self.model})" if self.model else self.switch


@dataclass(frozen=True, kw_only=True)
class AtOnce:
    """In all, by the mean of the turns in which each card sends to one and receives from one.

    `expected_gb_per_s`: where pairs get their shares of the links above the cards.
    """

    gb_per_s: float
    expected_gb_per_s: float
    alone_gb_per_s: float
    collapsed: tuple[Collapsed, ...] = ()

    def __str__(self) -> str:
        rates = f"{self.gb_per_s:.1f} of {self.expected_gb_per_s:.1f} GB/s"
        return f"all cards at once, each to one other: {rates} expected"

    @property
    def collapse(self) -> str:
        """In a sentence, of the worst turn; empty where there is none."""
        turns: dict[int, list[Collapsed]] = {}
        for one in self.collapsed:
            turns.setdefault(one.turn, []).append(one)
        if not turns:
            return ""
        worst = min(turns.values(), key=lambda turn: _had(turn) / _wanted(turn))
        where = " and ".join(dict.fromkeys(one.named_switch for one in worst if one.switch))
        at = f" at switch {where}" if where else ""
        rates = f"{_had(worst):.1f} of {_wanted(worst):.1f} GB/s{at}"
        return (
            f"copies of all cards at once collapse, with right data: {rates}; all-to-all and tree "
            f"collectives are as slow; fix: {_AT_A_SWITCH if where else _ELSEWHERE}"
        )


_AT_A_SWITCH: Final = (
    "clear ACS if `rigops doctor` finds acs.path; else order the ranks so that cards behind one "
    "switch send to one port of the CPU at a time, as a ring does, or put cards into slots of the "
    "CPU; another driver does not help"
)
_ELSEWHERE: Final = "look for acs.path and pci.width in `rigops doctor`"


def _had(turn: Sequence[Collapsed]) -> float:
    return sum(one.gb_per_s for one in turn)


def _wanted(turn: Sequence[Collapsed]) -> float:
    return sum(one.expected_gb_per_s for one in turn)


@dataclass(frozen=True, kw_only=True)
class CollectivesFound:
    """An all-reduce by NCCL over all GPUs, with P2P and, as a control, without."""

    verdict: Annotated[str, one_of(COLLECTIVES)] = NOT_PROVEN
    cause: str = ""  # of a failure: p2p, or other where it fails without P2P as well
    evidence: tuple[str, ...] = ()
    library: str = ""
    version: str = ""
    p2p_gb_per_s: float | None = None
    control_gb_per_s: float | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "collectives": self.verdict,
            "collectives_evidence": list(self.evidence),
            "collectives_library": self.library or None,
            "collectives_version": self.version or None,
            "collectives_p2p_gb_per_s": self.p2p_gb_per_s,
            "collectives_control_gb_per_s": self.control_gb_per_s,
        }


@dataclass(frozen=True, kw_only=True)
class Container:
    """`by_sudo`: its engine answers root only, and the login is not root."""

    name: str
    id: str
    engine: str
    image: str
    by_sudo: bool = False

    def as_json(self) -> dict[str, object]:
        return {"container": self.name, "id": self.id, "engine": self.engine, "image": self.image}


@dataclass(frozen=True)
class Difference:
    """Of a container from its host. `kind`: cards, p2p, shared_memory or nccl."""

    kind: str
    status: str
    summary: str


@dataclass(frozen=True, kw_only=True)
class HostFound:
    host: str
    status: str
    at: str = ""  # RFC 3339, UTC
    level: str | None = None  # the rung that was reached; None: no pair was tried
    needs_reboot: bool = False
    is_partial: bool = False  # only some of the pairs were to be tried: no proof of the host
    predicted_nccl_transport: str | None = None
    machine: Machine = Machine()
    gpus: tuple[GpuSeen, ...] = ()
    pairs: tuple[PairFound, ...] = ()
    collectives: CollectivesFound = CollectivesFound()
    changes: tuple[Change, ...] | None = None  # None: not compared
    links: tuple[LinkSeen, ...] = ()  # while bytes moved
    not_compared: tuple[str, ...] = ()  # what could not be read, so that it may have changed
    reasons: tuple[str, ...] = ()  # for the status, beyond the verdicts of pairs
    slow_pairs: tuple[SlowPair, ...] = ()  # against others of the same kind; `reasons` names them
    together: AtOnce | None = None  # None: not measured; `reasons` has a collapse too
    container: Container | None = None  # in which it ran
    differs: tuple[Difference, ...] = ()  # from the host; `reasons` has them too
    lost: str = ""  # cards that were gone before, in words: nothing was copied
    error: HostError | None = None

    @property
    def nothing_to_prove(self) -> str:
        """Why no pair was tried, where that is no fault; else empty."""
        if self.status not in {OK, WARN}:
            return ""
        if self.pairs:
            return no_access([pair.verdict for pair in self.pairs])
        return f"{len(self.gpus) or 'no'} GPU: nothing to prove"

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "host": self.host,
            "status": self.status,
            "at": self.at or None,
            "level": self.level,
            "nothing_to_prove": self.nothing_to_prove or None,
            "needs_reboot": self.needs_reboot,
            "partial": self.is_partial,
            "predicted_nccl_transport": self.predicted_nccl_transport,
            "machine": asdict(self.machine),
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "pairs": [pair.as_json() for pair in self.pairs],
            **self.collectives.as_json(),
            "changes": None if self.changes is None else [one.as_json() for one in self.changes],
            "links": [asdict(link) for link in self.links],
            "not_compared": list(self.not_compared),
            "reasons": list(self.reasons),
            "slow_pairs": [slow.as_json() for slow in self.slow_pairs],
            "together": None if self.together is None else to_json(self.together),
        }
        if self.container is not None:
            document["in"] = self.container.as_json()
            document["differs"] = [asdict(one) for one in self.differs]
        if self.error is not None:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document


def overall(hosts: Sequence[HostFound]) -> str:
    return gravest(host.status for host in hosts) if hosts else SKIPPED


def _range(link: Link) -> str:
    numbers = dict.fromkeys((f"{link.slowest:g}", f"{link.fastest:g}"))
    return f"{' to '.join(numbers)} GB/s"
