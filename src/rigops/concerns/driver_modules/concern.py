"""driver_modules: kernel modules that the owner supplies, chosen at boot by a kernel argument."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.driver_modules import NAME, record
from rigops.hostside.packing import installed_at
from rigops.inventory.spec.scalars import Key, text

if TYPE_CHECKING:
    from rigops.concerns.concern import HostRequest, Kept, ProvenHost
    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.driver_modules.late_mounts import LateMounts
    from rigops.facts.sections import Pci

    of_a_tree = (LateMounts,) if spec.driver_modules is not None else ()
    return (*of_a_tree, Pci) if spec.p2p == "required" else of_a_tree


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.driver_modules.operations import driver_modules

    driver_modules(spec)


def _provide(request: HostRequest) -> object:
    from rigops.concerns.driver_modules.after_proof import stored

    return stored(request)


def _keep(host: ProvenHost) -> Kept:
    from rigops.concerns.driver_modules.after_proof import keep

    return keep(host)


def _reboot_reasons(spec: RigSpec) -> Iterator[str]:
    if spec.driver_modules is not None:
        from rigops.concerns.driver_modules.operations import reboot_reasons

        yield from reboot_reasons(spec)


def _trial_failure(arguments: Collection[str], facts: Mapping[type[Any], Any]) -> str:
    from rigops.concerns.driver_modules.decide import not_loaded
    from rigops.facts.sections import OwnModules
    from rigops.probe.sections.own_modules import ARGUMENT

    return not_loaded(facts.get(OwnModules)) if ARGUMENT in arguments else ""


def _failed_proof(arguments: Collection[str]) -> str:
    from rigops.probe.sections.own_modules import ARGUMENT

    return "preflight failed with modules of your own" if ARGUMENT in arguments else ""


DRIVER_MODULES: Final = Concern(
    name=NAME,
    keys=(
        Key(
            NAME,
            "a folder, a git checkout or a .tar.gz of kernel modules on this machine",
            text,
            ("open_gpu_kernel_modules", "driver_module"),
            stays_here=True,
        ),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            record.PATH,
            "modules of your own that failed are tried again",
            of_schema(record.SCHEMA),
            f"sudo rm {record.PATH}",
        ),
    ),
    reboot_reasons=_reboot_reasons,
    self_check=lambda spec: (
        (installed_at("own_modules"), "check") if spec.driver_modules is not None else ()
    ),
    trial_failure=_trial_failure,
    failed_proof=_failed_proof,
    provide=_provide,
    keep=_keep,
)
