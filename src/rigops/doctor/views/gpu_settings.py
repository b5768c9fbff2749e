"""Judgements of gpu_tuning's judge on a card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.gpu_tuning.concern import GPU_TUNING
from rigops.doctor.views import declared
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Finding

NEEDS: Final = (SMI, RIGOPS_STATE, BOOT)


def judge(
    examined: Examined, card: Card, check: str, declare: Mapping[str, object]
) -> Finding | None:
    place = card.smi and (card.smi.address or card.smi.uuid)
    return declared.judge(examined, GPU_TUNING, check, f"gpu {place}", declare=declare)
