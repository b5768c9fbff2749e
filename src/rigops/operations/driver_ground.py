"""What the host says that decides over its driver, brought together for the resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.facts.driver_ground import DriverGround, DriverModules, DriverPackages, SecureBoot
from rigops.facts.driver_machine import Told, machine_of
from rigops.facts.sections import OsRelease, Pci, Uname

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine


def machine(host: Host, catalog: Catalog) -> Machine:
    told = Told(
        system=host.get_fact(OsRelease),
        running=host.get_fact(Uname),
        pci=host.get_fact(Pci),
        ground=host.get_fact(DriverGround),
        packages=host.get_fact(DriverPackages),
        modules=host.get_fact(DriverModules),
        secure_boot=host.get_fact(SecureBoot),
    )
    return machine_of(told, catalog)
