"""All checks, and what every finding has in common whichever check made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops import assets
from rigops.doctor.check import Check, Examined
from rigops.doctor.checks import (
    acs,
    aer,
    bar1,
    card_drivers,
    clocks,
    command_line,
    container,
    cuda,
    device_nodes,
    driver,
    driver_hang,
    driver_settings,
    fabric,
    firmware_errors,
    gsp,
    hypervisor,
    iommu,
    iommu_fault,
    kernel_headers,
    link,
    memory_health,
    memory_policy,
    mig,
    module,
    module_build,
    module_flavor,
    module_versions,
    nccl,
    package_pins,
    package_sources,
    peer_access,
    peer_hindrances,
    power,
    power_budget,
    presence,
    reboot,
    secure_boot,
    slot,
    temperature,
    wall_clock,
    xid,
)
from rigops.doctor.order import told
from rigops.spec import RigSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rigops.catalog import Catalog
    from rigops.doctor.finding import Finding, Remedy
    from rigops.probe.facts import HostFacts

CHECKS: tuple[Check, ...] = (
    *presence.CHECKS,
    *link.CHECKS,
    *slot.CHECKS,
    *bar1.CHECKS,
    *aer.CHECKS,
    *acs.CHECKS,
    *hypervisor.CHECKS,
    *iommu.CHECKS,
    *iommu_fault.CHECKS,
    *command_line.CHECKS,
    *memory_policy.CHECKS,
    *module_build.CHECKS,
    *secure_boot.CHECKS,
    *card_drivers.CHECKS,
    *module_versions.CHECKS,
    *module_flavor.CHECKS,
    *driver.CHECKS,
    *gsp.CHECKS,
    *module.CHECKS,
    *kernel_headers.CHECKS,
    *device_nodes.CHECKS,
    *driver_hang.CHECKS,
    *driver_settings.CHECKS,
    *package_pins.CHECKS,
    *package_sources.CHECKS,
    *reboot.CHECKS,
    *fabric.CHECKS,
    *cuda.CHECKS,
    *container.CHECKS,
    *mig.CHECKS,
    *firmware_errors.CHECKS,
    *power.CHECKS,
    *power_budget.CHECKS,
    *clocks.CHECKS,
    *temperature.CHECKS,
    *memory_health.CHECKS,
    *xid.CHECKS,
    *peer_access.CHECKS,
    *peer_hindrances.CHECKS,
    *nccl.CHECKS,
    *wall_clock.CHECKS,
)


def examine(
    facts: HostFacts,
    spec: RigSpec | None,
    catalog: Catalog,
    *,
    checks: Iterable[Check] = CHECKS,
    concerns: Collection[str] | None = None,
) -> list[Finding]:
    """`concerns` are those that apply can carry out: by default the deploys of this version."""
    examined = Examined(facts, spec or RigSpec(), catalog)
    deployable = deploys() if concerns is None else concerns
    return told(
        replace(
            finding,
            remedy=_possible(finding.remedy, deployable),
            essential=finding.essential
            or check.essential
            or bool(check.keys & examined.spec.declared),
        )
        for check in checks
        for finding in check.run(examined)
    )


def deploys() -> frozenset[str]:
    return frozenset(path.stem for path in assets.find("deploys").glob("*.py"))


def _possible(remedy: Remedy | None, deployable: Collection[str]) -> Remedy | None:
    if remedy is None or not remedy.by_apply or remedy.concern in deployable:
        return remedy
    return replace(remedy, kind="hands", concern=None, text=remedy.by_hand or remedy.text)
