"""gpu_persistence, gpu_power_limit, gpu_clocks: settings of the cards that hold across reboots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, States
from rigops.concerns.gpu_tuning import NAME, record
from rigops.concerns.state import State
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.gpu import CLOCKS_EXAMPLE, clocks, per_gpu, power_limit
from rigops.inventory.spec.scalars import Key, boolean
from rigops.probe.section import Section

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.facts.sections import SectionFact
    from rigops.probe.snapshot import HostSnapshot


def _is_declared(spec: RigSpec) -> bool:
    declared = (spec.gpu_persistence, spec.gpu_power_limit, spec.gpu_clocks)
    return any(one is not None for one in declared)


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.facts.sections import Boot, Pci, Smi, Units

    return (Smi, Boot, Pci, Units) if _is_declared(spec) else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.gpu_tuning.operations import gpu_tuning, gpu_tuning_undeclared

    if _is_declared(spec):
        gpu_tuning(spec)
    else:
        gpu_tuning_undeclared()


def _needs() -> Sequence[Section[Any]]:
    from rigops.probe.sections import boot, nvidia_smi_xml, rigops_state

    return (nvidia_smi_xml.SECTION, rigops_state.SECTION, boot.SECTION)


def _states(spec: RigSpec, snapshot: HostSnapshot, catalog: Catalog) -> Sequence[State]:
    from rigops.concerns.gpu_tuning import decide

    return decide.states(spec, snapshot, catalog)


GPU_TUNING: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "gpu_persistence",
            "True or False",
            boolean,
            ("persistence", "persistence_mode", "gpu_persistence_mode"),
        ),
        Key(
            "gpu_power_limit",
            '285, "285W", "80%" of the default, or a dict keyed by GPU',
            per_gpu(power_limit, '{"3090": 285}'),
            ("power_limit", "gpu_power", "gpu_watts", NAME),
        ),
        Key(
            "gpu_clocks",
            f"{CLOCKS_EXAMPLE}, or a dict keyed by GPU",
            per_gpu(clocks, '{"V100": "application=877,1005"}'),
        ),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            record.PATH,
            "settings of the cards that are undeclared end with the next reboot only",
            record.parse,
            "reboot the host",
        ),
    ),
    states=States(needs=_needs, judge=_states),
    self_check=lambda spec: (installed_at(NAME), "check") if _is_declared(spec) else (),
)
