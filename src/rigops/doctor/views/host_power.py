"""The power of the host as its snapshot and its declarations have it: for doctor and for power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined
from rigops.doctor.views import reported
from rigops.doctor.views.cards import lost_cards
from rigops.power import Feeds, HostPower, KnownCard, loads_of
from rigops.power.report import Measured
from rigops.probe.lost_cards import SECTIONS as LOST
from rigops.probe.lost_cards import sentence
from rigops.probe.sections.ups import SECTION as UPS
from rigops.probe.smi.report import SmiGpu

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

SECTIONS: Final = (*LOST, UPS)
_IDLE: Final = "gpu_idle"


def find_power(examined: Examined, host: str = "") -> HostPower:
    missing = None if views.has_no_gpu(examined) else reported.gap(examined)
    return HostPower(
        host=host,
        feeds=Feeds.from_spec(examined.spec),
        loads=loads_of([_known(card) for card in examined.cards], examined.spec.gpu_power_limit),
        gap=missing.summary if missing else "",
        lost=sentence(lost_cards(examined).values()),
        is_clocked=examined.spec.gpu_clocks is not None,
    )


def find_measured(snapshot: HostSnapshot) -> tuple[Measured, ...]:
    readings = snapshot[UPS].or_empty.readings
    return tuple(Measured(one.name, one.watts, one.lines) for one in readings)


def _known(card: Card) -> KnownCard:
    smi = card.smi
    if smi is None:
        return KnownCard(identity=card.identity, model=card.model)
    return KnownCard(
        identity=card.identity,
        model=card.model,
        watts_limit=smi.watts_limit,
        watts_default=smi.watts_default,
        watts_min=smi.watts_min,
        watts_max=smi.watts_max,
        watts_idle=smi.watts if _is_idle(smi) else None,
    )


def _is_idle(smi: SmiGpu) -> bool:
    return _IDLE in (smi.throttle or ()) and not smi.utilization_percent
