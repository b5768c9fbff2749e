"""Settings for programs on a host, by the results of its preflight. Pure.

A veto only: it turns off what is not proven. NCCL and vLLM ask the driver what it grants and move
no data to find out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from rigops.catalog.links import NEAR_TO_FAR
from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import FAIL, FAILED, OK, REFUSED, STATUS_OF, UNKNOWN, WARN
from rigops.preflight.found import HostFound, PairFound
from rigops.probe.lost_cards import ADVICE

DISABLE: Final = "NCCL_P2P_DISABLE"
LEVEL: Final = "NCCL_P2P_LEVEL"

# As NCCL counts: it knows no NODE, and takes such a path for PHB or SYS.
_LEVELS: Final = {"NVL": "NV", "PIX": "PIX", "PXB": "PXB", "PHB": "NODE"}
_RIGHT: Final = (OK, WARN)
_NAMED: Final = 3
_VLLM: Final = (
    "vLLM: pass --disable-custom-all-reduce; it copies between GPUs whatever NCCL is set to"
)
_STAGED: Final = "the driver grants no peer access: NCCL and vLLM use the host's memory anyway"


@dataclass(frozen=True)
class Variable:
    name: str
    value: str
    why: str
    until: str


@dataclass(frozen=True)
class Environment:
    variables: tuple[Variable, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "variables": [asdict(variable) for variable in self.variables],
            "notes": list(self.notes),
        }


def environment(found: HostFound) -> Environment:
    if found.lost:  # before anything was copied: not a matter of P2P
        return Environment(notes=(f"{found.lost}: {ADVICE}",))
    granted = [pair for pair in found.pairs if pair.verdict not in REFUSED]
    bad = [pair for pair in granted if STATUS_OF[pair.verdict] not in _RIGHT]
    together = found.collectives
    fails_together = granted and together.verdict == FAILED and together.cause != "other"
    if not bad and not fails_together and (found.pairs or found.status not in {FAIL, UNKNOWN}):
        return Environment(notes=tuple(_notes(found, granted)))
    until = f"`rigops preflight {found.host}` passes"
    why = _why(found, bad)
    level = _level(granted, bad)
    variable = Variable(LEVEL, level, why, until) if level else Variable(DISABLE, "1", why, until)
    return Environment((variable,), (_VLLM,))


def _notes(found: HostFound, granted: Sequence[PairFound]) -> Iterator[str]:
    if not found.pairs:
        yield "; ".join(found.reasons) or "no pair of GPUs: nothing to set"
    elif not granted:
        yield _STAGED
    else:
        yield "every pair with peer access is right: nothing to set"
    for pair in granted:
        if STATUS_OF[pair.verdict] == WARN:
            slow = f"{pair.verdict} {pair.source} to {pair.target}: {'; '.join(pair.evidence)}"
            yield f"{slow}; compare with {DISABLE}=1 before you choose"


def _why(found: HostFound, bad: Sequence[PairFound]) -> str:
    if not bad:
        error = [found.error.message] if found.error else []
        return "; ".join([*error, *found.reasons]) or "preflight has not passed"
    failed = [pair for pair in bad if STATUS_OF[pair.verdict] == FAIL]
    if not failed and found.reasons:
        return "; ".join(found.reasons)
    worst = failed or bad
    named = [f"{pair.verdict} {pair.source} to {pair.target}" for pair in worst[:_NAMED]]
    more = len(worst) - _NAMED
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _level(granted: Sequence[PairFound], bad: Sequence[PairFound]) -> str:
    """The farthest path that NCCL may still copy along, where all pairs so near are well."""
    far = {pair: _distance(pair.link) for pair in granted}
    nearest_bad = min((far[pair] for pair in bad), default=0)
    for name, link in reversed(_LEVELS.items()):
        reach = NEAR_TO_FAR.index(link)
        if reach < nearest_bad and any(far[pair] <= reach for pair in granted):
            return name
    return ""


def _distance(link: str) -> int:
    """A link that is not known may be as near as any."""
    name = "NV" if link.startswith("NV") else link
    return NEAR_TO_FAR.index(name) if name in NEAR_TO_FAR else 0
