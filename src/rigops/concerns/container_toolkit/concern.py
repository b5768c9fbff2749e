"""container_toolkit: the version of NVIDIA's container toolkit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, States
from rigops.concerns.container_toolkit import NAME
from rigops.concerns.state import State
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.faults import refuse
from rigops.inventory.spec.scalars import Key
from rigops.probe.section import Section

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.facts.sections import SectionFact
    from rigops.probe.snapshot import HostSnapshot

_VERSION: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){2}")


def _version(value: object) -> str:
    if isinstance(value, str) and _VERSION.fullmatch(value):
        return value
    near = _VERSION.match(value) if isinstance(value, str) else None
    example = near[0] if near else "1.18.2"
    refuse("not a version of the container toolkit", value, fix=f'write it as "{example}"')


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.facts.sections import GpuPackages

    return (GpuPackages,) if spec.container_toolkit is not None else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.container_toolkit.operations import container_toolkit

    container_toolkit(declared=spec.container_toolkit)


def _needs() -> Sequence[Section[Any]]:
    from rigops.probe.sections import packages, rigops_state

    return (packages.SECTION, rigops_state.SECTION)


def _states(spec: RigSpec, snapshot: HostSnapshot, catalog: Catalog) -> Sequence[State]:
    from rigops.concerns.container_toolkit.state import judge_toolkit
    from rigops.packages.records import HOLDS_RECORD
    from rigops.probe.sections import packages, rigops_state

    return judge_toolkit(
        spec.container_toolkit,
        snapshot[packages.SECTION].or_empty,
        holds=snapshot[rigops_state.SECTION].or_empty.records.get(HOLDS_RECORD),
        catalog=catalog,
    )


CONTAINER_TOOLKIT: Final = Concern(
    name=NAME,
    keys=(Key(NAME, '"1.18.2"', _version, ("nvidia_container_toolkit", "toolkit_version")),),
    deploy=_deploy,
    facts=_facts,
    states=States(needs=_needs, judge=_states),
)
