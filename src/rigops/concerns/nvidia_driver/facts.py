"""What deploys ask a host about its driver, as facts of pyinfra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.api.facts import FactBase

from rigops.concerns.nvidia_driver.apt_offers import Offered, offers_section
from rigops.concerns.nvidia_driver.resolver import host_facts, vault_sets
from rigops.concerns.nvidia_driver.resolver.host_facts import HostSections, machine_of
from rigops.facts.sections import (
    GpuPackages,
    OsRelease,
    Pci,
    SectionFact,
    Uname,
    section_command,
    section_value,
)
from rigops.probe.sections import nvidia_modinfo, secure_boot

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.concerns.nvidia_driver.resolver.machine import Machine


class DriverHost(SectionFact[host_facts.DriverHostFacts]):
    section = host_facts.SECTION


class DriverModules(SectionFact[nvidia_modinfo.NvidiaModinfo]):
    section = nvidia_modinfo.SECTION


class SecureBoot(SectionFact[secure_boot.SecureBoot]):
    section = secure_boot.SECTION


class VaultPool(SectionFact[vault_sets.Pool]):
    section = vault_sets.SECTION


class DriverOffers(FactBase[Offered]):
    """Every version of every package of the driver, and what these kernels need with it."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, source: str = "", headers: tuple[str, ...] = (), signed: tuple[str, ...] = ()
    ) -> StringCommand:
        return section_command(offers_section(source, headers, signed))

    def process(self, output: list[str]) -> Offered:
        return section_value(offers_section(), output)

    @staticmethod
    def default() -> Offered:
        return Offered()


def machine(host: Host, catalog: Catalog) -> Machine:
    asked = HostSections(
        system=host.get_fact(OsRelease),
        running=host.get_fact(Uname),
        pci=host.get_fact(Pci),
        host=host.get_fact(DriverHost),
        packages=host.get_fact(GpuPackages),
        modules=host.get_fact(DriverModules),
        secure_boot=host.get_fact(SecureBoot),
    )
    return machine_of(asked, catalog)
