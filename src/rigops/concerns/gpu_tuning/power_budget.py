"""Whether the declared supplies and circuits feed the declared limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rigops.catalog import Catalog, find_gpu
from rigops.concerns.gpu_tuning.decide import TunedCard
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.choice import GpuIdentity
from rigops.power import Feeds, HostPower, KnownCard, Share, describe_excess, loads_of, odd_breaker
from rigops.probe.sections.pci import Pci


def odd_breakers(spec: RigSpec) -> Iterator[str]:
    odd = (odd_breaker(circuit) for circuit in spec.circuits or ())
    return (f"circuits: {text}" for text in dict.fromkeys(odd) if text)


def excess(spec: RigSpec, cards: Sequence[KnownCard], others: Sequence[Share]) -> str:
    """Nothing where the declared limits are fed. `others`: of other hosts on the same circuits."""
    feeds = Feeds.from_spec(spec)
    if spec.gpu_power_limit is None or not feeds.are_declared:
        return ""
    found = HostPower(host="", feeds=feeds, loads=loads_of(cards, spec.gpu_power_limit))
    budget = found.budget(others)
    if not budget.excesses:
        return ""
    limit = found.equal_limit(others).watts
    fits = f'declare "gpu_power_limit": {limit}, or ' if limit is not None else ""
    excesses = "; ".join(map(describe_excess, budget.excesses))
    return (
        f"gpu_power_limit: these limits cannot be fed. {excesses}. fix: {fits}use larger supplies "
        "or more circuits; `rigops power` shows the budget"
    )


def known(cards: Sequence[TunedCard]) -> list[KnownCard]:
    return [
        KnownCard(
            identity=card.identity,
            model=card.model,
            watts_limit=card.smi.watts_limit,
            watts_default=card.smi.watts_default,
            watts_min=card.smi.watts_min,
            watts_max=card.smi.watts_max,
        )
        for card in cards
    ]


def foreseen(pci: Pci, catalog: Catalog) -> list[KnownCard]:
    """Where no driver answers yet."""
    found = []
    for one in pci.nvidia_gpus:
        model = find_gpu(catalog, f"10de:{one.device:04x}").only if one.device else None
        names = (model.name, *model.aliases) if model else ()
        found.append(
            KnownCard(
                identity=GpuIdentity(one.address, None, names),
                model=model,
                is_asked=False,
                watts_default=float(model.watts_default) if model else None,
            )
        )
    return found
