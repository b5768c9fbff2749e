"""limits, nccl: what every rig needs before its GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.machine import limits, nccl
from rigops.inventory.spec.scalars import Key

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.base.facts import LimitSurroundings
    from rigops.facts.sections import Limits

    return (Limits, LimitSurroundings) if spec.limits is not None else ()


def _files(spec: RigSpec) -> Sequence[str]:
    from rigops.concerns.base.decide import NCCL_CONF

    return (NCCL_CONF,) if spec.nccl is not None else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.base.operations import base

    base(limits=spec.limits, nccl=spec.nccl)


BASE: Final = Concern(
    name="base",
    keys=(
        Key("limits", "a dict of shm, memlock, nofile and removeipc", limits),
        Key("nccl", 'a dict such as {"NCCL_P2P_LEVEL": "SYS"}', nccl),
    ),
    deploy=_deploy,
    facts=_facts,
    files=_files,
)
